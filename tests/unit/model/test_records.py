# SPDX-License-Identifier: Apache-2.0
"""Dataclasses that declare the kinds of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from roost.errors import FieldError
from roost.model.fields import (
    AMOUNT,
    TEXT,
    Amount,
    Checked,
    ListOf,
    MappingOf,
    NameTuple,
    OptionalText,
    Part,
    Record,
    TextMapping,
    kinds_of,
    lenient_parsers,
    make_record,
    parse_present,
)
from roost.model.image_property_values import ImagePropertyError
from roost.model.kinds import OrNull


@dataclass(frozen=True)
class Wheel(Checked):
    size: Amount
    maker: OptionalText = None


@dataclass(frozen=True)
class Cart(Checked):
    name: Annotated[str, TEXT]
    wheels: Annotated[tuple[Wheel, ...], ListOf(Record(Wheel))] = ()
    spare: Annotated[Wheel | None, OrNull(Part(Wheel, takes_mappings=True))] = None
    labels: TextMapping = field(default_factory=dict)
    loads: Annotated[Mapping[str, int], MappingOf(AMOUNT)] = field(default_factory=dict)
    anything: Any = None


@dataclass(frozen=True, slots=True)
class Bare:
    """Checked only where it is read."""

    size: Amount
    names: NameTuple = ()
    note: str = ""


def test_a_checked_record_puts_its_fields_into_their_proper_form():
    cart = Cart("x", [{"size": 4.0}], spare={"size": 1}, labels={"a": 1})
    assert (cart.wheels, cart.spare, cart.labels) == ((Wheel(4),), Wheel(1), {"a": "1"})
    assert type(cart.wheels[0].size) is int


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": 5}, "name: 5 is not text (put it in quotes)"),
        ({"name": "x", "wheels": 5}, "wheels: 5 is not a list"),
        ({"name": "x", "wheels": [{"size": 1}, 5]}, "wheels[1]: 5 is not a mapping (write key: value pairs)"),
        ({"name": "x", "wheels": [{"size": -1}]}, "wheels[0].size: -1 is too small (at least 0)"),
        ({"name": "x", "wheels": [{}]}, "wheels[0].size: is missing (Wheel cannot do without it)"),
        ({"name": "x", "wheels": [{"sise": 1}]}, "wheels[0]: unknown field 'sise' (did you mean size?)"),
        ({"name": "x", "spare": 5}, "spare: 5 is not of the class Wheel"),
        ({"name": "x", "spare": {"size": None}}, "spare.size: None is not a whole number"),
        ({"name": "x", "loads": {"[1]": "y"}}, "loads.[1]: 'y' is not a whole number"),
        ({"name": "x", "loads": {"": "y"}}, "loads.: 'y' is not a whole number"),
    ],
)
def test_an_error_names_the_field_wherever_the_record_is(fields, message):
    with pytest.raises(FieldError) as alone:
        Cart(**fields)
    assert str(alone.value) == message
    with pytest.raises(FieldError) as inside:
        Record(Cart).strict(fields, "carts[3]")
    assert str(inside.value) == f"carts[3].{message}"
    with pytest.raises(FieldError) as listed:
        ListOf(Record(Cart)).strict([{"name": "a"}, fields], "carts")
    assert str(listed.value) == f"carts[1].{message}"
    with pytest.raises(FieldError) as on_its_own:
        Record(Cart).read(fields)
    assert str(on_its_own.value) == message


def test_the_first_field_that_is_missing_is_named():
    with pytest.raises(FieldError, match=r"^size: is missing \(measure it\)$"):
        Record(Bare, hint="measure it").read({})


def test_a_default_is_not_checked():
    @dataclass(frozen=True)
    class Odd(Checked):
        size: Amount = -1

    assert Odd().size == -1
    with pytest.raises(FieldError, match="too small"):
        Odd(-2)


def test_a_record_that_is_not_checked_when_made_is_checked_when_read():
    assert Bare("any", 5).size == "any"
    assert Record(Bare).read({"size": 4.0, "names": "a", "note": 5}) == Bare(4, ("a",), 5)
    with pytest.raises(FieldError, match=r"^names: 5 is not a list of names$"):
        Record(Bare).read({"size": 1, "names": 5})


def test_only_the_named_fields_are_read():
    some = Record(Bare, ("size", "names"))
    assert list(some.schema["properties"]) == ["size", "names"]
    with pytest.raises(FieldError, match=r"unknown field 'note' \(known: names, size\)"):
        some.read({"size": 1, "note": "x"})


def test_null_may_be_as_good_as_no_entry():
    tolerant = Record(Bare, null_is_absent=True)
    assert tolerant.read({"size": 1, "names": None, "note": None}) == Bare(1)
    with pytest.raises(FieldError, match=r"^size: None is not a whole number$"):
        tolerant.read({"names": ["a"]})
    assert tolerant.schema["required"] == ["size"]


def test_a_rule_about_several_fields():
    def check(bare):
        if len(bare.names) != bare.size:
            raise FieldError("names", f"{len(bare.names)} of {bare.size}")

    ruled = Record(Bare, rule=check)
    assert ruled.read({"size": 1, "names": ["a"]}).size == 1
    with pytest.raises(FieldError, match=r"^bares\[0\]\.names: 0 of 1$"):
        ListOf(ruled).strict([{"size": 1}], "bares")


def test_the_schema_of_a_record():
    assert Record(Wheel).schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["size"],
        "properties": {"size": AMOUNT.schema, "maker": {"type": ["string", "null"]}},
    }


def test_a_part_is_taken_as_it_is_and_a_mapping_only_where_that_is_allowed():
    wheel = Wheel(1)
    assert Part(Wheel).strict(wheel, "f") is wheel
    with pytest.raises(FieldError, match=r"^f: \{'size': 1\} is not of the class Wheel$"):
        Part(Wheel).strict({"size": 1}, "f")


def test_kinds_are_those_that_the_annotations_declare():
    assert kinds_of(Wheel)["size"] is AMOUNT
    assert kinds_of(Cart)["anything"] is None


def test_messages_are_read_field_by_field_and_the_rest_ignored():
    parsers = lenient_parsers(Wheel)
    assert parse_present(parsers, {"size": "4", "colour": "red"}, "wheel") == {"size": 4}
    with pytest.raises(FieldError, match=r"^wheel\.maker: \[\] is not text"):
        parse_present(parsers, {"maker": []}, "wheel")
    assert list(lenient_parsers(Wheel, "maker")) == ["maker"]
    with pytest.raises(FieldError, match=r"^wheel\.size: "):
        make_record(Wheel, "wheel", size=-1)


def test_an_error_of_another_class_keeps_it_on_the_way_up():
    error = ImagePropertyError("a", "is wrong", "mend it", "Invalid").under("b").at("c")
    assert (type(error), error.field, error.hint, error.nova_type) == (ImagePropertyError, "c", "mend it", "Invalid")
