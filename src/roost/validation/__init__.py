# SPDX-License-Identifier: Apache-2.0
"""What a value from outside may be: one vocabulary for fleet files, messages, options, arguments and Python callers.

A *kind* is one type of field. It reads a value in one of two modes, or raises FieldError; and it has a JSON Schema:

    AMOUNT.strict(512, "vcpus")       512: what people write, in fleet files and in Python
    AMOUNT.lenient("512", "vcpus")    512: what nova's releases send, in messages
    AMOUNT.schema                     {"type": "integer", "minimum": 0, "maximum": 10**15}

A record declares its fields with kinds (`records.py`). `vocabulary.py` has the kinds by name, each station adds those
of its own classes beside the class, and these are all differences between the two modes:

    kind            strict                              lenient takes besides                   lenient refuses
    whole number    512, 512.0                          "512", 512.7 (as 512); null where       -
                                                        `unset` says what that is
    text            "a"                                 5, 1.5, True (as written)               over 65,536 characters
    flag            true, false                         null                                    -
    list            [a, b]                              null, sets                              over 10,000 entries
    list of names   [a, b], sets, or a alone            null                                    a alone, over 10,000
    mapping         {a: b}                              null                                    over 10,000 entries
    text mapping    {a: b}, {a: 1}, {a: true}           null; a flag is `True`, not `true`      over 10,000 entries
"""
