# SPDX-License-Identifier: Apache-2.0
"""What strict mode takes the schema takes too, and lenient mode, which makes the same of it; and all that differs."""

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.errors import FieldError
from roost.model import Aggregate, Flavor, Image, ServerGroup, Service
from roost.model.fields import (
    AMOUNT,
    AMOUNT_OR_UNSET,
    AT_LEAST_ONE,
    FLAG,
    IDENTIFIER,
    LABEL,
    LISTS_OF_NAMES,
    MAPPING,
    MOST_LISTED,
    NAME,
    NAME_SET,
    NAMES,
    NUMBER,
    OPTIONAL_AMOUNT,
    OPTIONAL_TEXT,
    PLAIN_MAPPING,
    RATIO,
    TEXT,
    TEXT_MAPPING,
    TRAITS,
    ListOf,
    MappingOf,
    Record,
    kinds_of,
)
from roost.model.kinds import LONGEST_TEXT, Boolean, Matching, OneOf, OrNull
from roost.model.request import Destination, Limits, NetworkMetadata, NetworkRequest, RequestGroup, RequestSpec, Retry
from roost.model.uuids import UUID
from roost.sources.fields import HOST_FIELDS

KINDS = {
    "amount": AMOUNT,
    "amount or unset": AMOUNT_OR_UNSET,
    "at least one": AT_LEAST_ONE,
    "optional amount": OPTIONAL_AMOUNT,
    "number": NUMBER,
    "ratio": RATIO,
    "flag": FLAG,
    "text": TEXT,
    "optional text": OPTIONAL_TEXT,
    "label": LABEL,
    "name": NAME,
    "identifier": IDENTIFIER,
    "uuid": UUID,
    "word": OneOf(("a", "b")),
    "word or null": OrNull(OneOf(("a", "b"))),
    "pattern": Matching("[0-9]+", "is no number"),
    "names": NAMES,
    "set of names": NAME_SET,
    "lists of names": LISTS_OF_NAMES,
    "traits": TRAITS,
    "mapping": MAPPING,
    "text mapping": TEXT_MAPPING,
    "plain mapping": PLAIN_MAPPING,
    "list of amounts": ListOf(AMOUNT),
    "amounts by name": MappingOf(AMOUNT),
    "flavor": Record(Flavor),
    "image": Record(Image),
    "server group": Record(ServerGroup),
    "aggregate": Record(Aggregate),
    "service": Record(Service),
    **{f"host.{name}": field.kind for name, field in HOST_FIELDS.items()},
}

WORDS = st.sampled_from(
    ["a", "b", "5", "", "1.5", "A_1", "VCPU", "CUSTOM_X", "affinity", "name", "total", "count", "host"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 10**16)
    | st.floats()
    | WORDS
    | st.text(max_size=4)
    | st.uuids().map(str)
)
KEYS = WORDS | st.sampled_from(
    ["vcpus", "memory_mb", "policy", "id", "uuid", "metadata", "hosts", "rules", "disabled", "up", "num_instances"]
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "vcpus": st.integers(-1, 3),
        "memory_mb": st.integers(0, 3),
        "policy": st.sampled_from(["affinity", "legacy", None, "x"]),
        "name": WORDS,
        "uuid": WORDS,
        "hosts": st.lists(WORDS, max_size=2),
        "rules": st.dictionaries(st.just("max_server_per_host"), st.integers(0, 2) | WORDS, max_size=1),
        "metadata": st.dictionaries(WORDS, SCALARS, max_size=2),
        "value": SCALARS,
        "disabled": st.booleans(),
    },
)
VALUES = (
    JSON | RECORDS | st.lists(RECORDS, max_size=2) | st.lists(st.lists(WORDS, min_size=3, max_size=3), max_size=2)
)


def read(parse, value):
    """What a mode makes of a value, and whether it takes it at all."""
    try:
        return True, parse(value, "f")
    except FieldError:
        return False, None


def has_null(value):
    """Null inside of a record is tolerated in places where the schema does not say so."""
    if isinstance(value, dict):
        return any(each is None or has_null(each) for each in value.values())
    return isinstance(value, list) and any(map(has_null, value))


NULL_IS_TOLERATED = {"label"}


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=40)
@given(value=VALUES)
def test_what_strict_takes_the_schema_takes(name, value):
    is_taken, _ = read(KINDS[name].strict, value)
    if is_taken and not has_null(value) and not (value is None and name in NULL_IS_TOLERATED):
        jsonschema.Draft202012Validator(KINDS[name].schema).validate(value)


LISTS_OF_NAMES_IN = ("names", "set of names", "lists of names", "traits", "host.traits", "host.supported_instances")


@pytest.mark.parametrize("name", [name for name in KINDS if name not in (*LISTS_OF_NAMES_IN, "text mapping")])
@settings(max_examples=40)
@given(value=VALUES)
def test_what_strict_takes_lenient_takes_too_with_the_same_result(name, value):
    kind = KINDS[name]
    is_taken, made = read(kind.strict, value)
    if is_taken:
        assert read(kind.lenient, value) == (True, made)


@pytest.mark.parametrize("name", LISTS_OF_NAMES_IN)
@given(value=st.lists(st.lists(WORDS, max_size=2), max_size=2) | st.lists(WORDS, max_size=3))
def test_lists_of_names_are_the_same_in_both_modes_but_for_a_name_alone(name, value):
    is_taken, made = read(KINDS[name].strict, value)
    has_name_alone = any(isinstance(each, str) for each in value) and name == "lists of names"
    if is_taken and not has_name_alone:
        assert read(KINDS[name].lenient, value) == (True, made)


@given(value=st.dictionaries(WORDS, WORDS | st.integers(0, 10**9), max_size=3))
def test_text_mappings_are_the_same_in_both_modes_but_for_flags(value):
    assert TEXT_MAPPING.lenient(value, "f") == TEXT_MAPPING.strict(value, "f")


MODES = [
    # kind, value, what strict makes of it, what lenient makes of it; None: refused
    (AMOUNT, "512", None, 512),
    (AMOUNT, 512.7, None, 512),
    (AMOUNT, 512.0, 512, 512),
    (AMOUNT, "\u0665", None, None),
    (AMOUNT, "5 ", None, None),
    (AMOUNT, None, None, None),
    (AMOUNT, True, None, None),
    (AMOUNT_OR_UNSET, "", None, 0),
    (TEXT, 5, None, "5"),
    (TEXT, 1.5, None, "1.5"),
    (TEXT, True, None, "True"),
    (TEXT, "", None, None),
    (TEXT, "x" * (LONGEST_TEXT + 1), "x" * (LONGEST_TEXT + 1), None),
    (OPTIONAL_TEXT, "", "", ""),
    (FLAG, 1, None, None),
    (NAMES, ["a", 5], None, ("a", "5")),
    (NAMES, "a", ("a",), None),
    (NAMES, {"b", "a"}, ("a", "b"), ("a", "b")),
    (NAMES, ["a"] * (MOST_LISTED + 1), ("a",) * (MOST_LISTED + 1), None),
    (ListOf(AMOUNT), {2, 1}, None, (1, 2)),
    (ListOf(AMOUNT), "12", None, None),
    (TEXT_MAPPING, {"a": True}, {"a": "true"}, {"a": "True"}),
    (TEXT_MAPPING, {"a": None}, None, None),
    (MappingOf(AMOUNT), {"a": "1"}, None, {"a": 1}),
    (MAPPING, {str(at): at for at in range(MOST_LISTED + 1)}, {str(at): at for at in range(MOST_LISTED + 1)}, None),
]


@pytest.mark.parametrize(("kind", "value", "strict", "lenient"), MODES, ids=range(len(MODES)))
def test_where_the_modes_differ(kind, value, strict, lenient):
    assert read(kind.strict, value) == (strict is not None, strict)
    assert read(kind.lenient, value) == (lenient is not None, lenient)


@pytest.mark.parametrize(
    ("kind", "empty"),
    [
        (FLAG, False),
        (Boolean(unset=True), True),
        (NAMES, ()),
        (MAPPING, {}),
        (TEXT_MAPPING, {}),
        (AMOUNT_OR_UNSET, 0),
    ],
)
def test_null_is_something_in_lenient_mode_only(kind, empty):
    assert read(kind.strict, None) == (False, None)
    assert read(kind.lenient, None) == (True, empty)


@pytest.mark.parametrize(
    "cls",
    [
        Aggregate,
        Destination,
        Flavor,
        Image,
        Limits,
        NetworkMetadata,
        NetworkRequest,
        RequestGroup,
        Retry,
        ServerGroup,
        Service,
    ],
)
def test_every_field_of_a_record_declares_its_kind(cls):
    assert None not in kinds_of(cls).values()


def test_what_a_request_is_not_asked_for_declares_none():
    undeclared = [name for name, kind in kinds_of(RequestSpec).items() if kind is None]
    assert undeclared == ["is_fully_consumed", "older_form", "candidates", "candidate"]
