# SPDX-License-Identifier: Apache-2.0
"""Validation of external values: the kinds of fields in fleet files, messages, options, arguments and Python calls.

A *kind* is a type of field. It parses a value in strict or lenient mode, or raises FieldError, and has a JSON Schema:

    AMOUNT.strict(512, "vcpus")       512: fleet files and the Python API
    AMOUNT.lenient("512", "vcpus")    512: messages of nova's releases
    AMOUNT.schema                     {"type": "integer", "minimum": 0, "maximum": 10**15}

A record declares the kinds of its fields (`records.py`). `vocabulary.py` names the common kinds; other kinds are
defined next to the class they belong to. The differences between strict and lenient mode:

    kind            strict                              lenient also accepts                    lenient refuses
    whole number    512, 512.0                          "512", 512.7 (as 512); null if `unset`  -
                                                        is given
    text            "a"                                 5, 1.5, True (as written)               over 65,536 characters
    flag            true, false                         null                                    -
    list            [a, b]                              null, sets                              over 10,000 entries
    list of names   [a, b], sets, or a alone            null                                    a alone, over 10,000
    mapping         {a: b}                              null                                    over 10,000 entries
    text mapping    {a: b}, {a: 1}, {a: true}           null; a flag is `True`, not `true`      over 10,000 entries
"""
