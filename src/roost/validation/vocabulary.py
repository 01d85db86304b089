# SPDX-License-Identifier: Apache-2.0
"""The kinds by name. UPPER_CASE is a kind, which parses a value; CamelCase is a type that declares a field of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Annotated, Any

from roost.validation.containers import AnyMapping, ListOf, MappingOf, Names, PlainData, ScalarText, Traits
from roost.validation.kinds import Boolean, Matching, Number, OfType, OrNull, PrintableString, String, WholeNumber

LARGEST_RATIO = 1e6
"""Of an allocation ratio."""

AMOUNT = WholeNumber()
AT_LEAST_ONE = WholeNumber(least=1)
OPTIONAL_AMOUNT = OrNull(AMOUNT)
AMOUNT_OR_UNSET = WholeNumber(unset=0)
"""An amount that a message may leave empty: then it is 0."""
NUMBER = Number()
RATIO = Number(least=0, most=LARGEST_RATIO)
FLAG = Boolean()

TEXT = String()
OPTIONAL_TEXT = OrNull(String(may_be_empty=True))
LABEL = OrNull(String(may_be_empty=True), unset="", is_published=False)
"""A text for people, possibly empty."""
NAME = PrintableString()
IDENTIFIER = OfType((str, int, NoneType), "is no text and no whole number")
"""What something is known by: a text, a whole number, or nothing."""
UUID = Matching(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}", "is no uuid")

NAMES = Names()
NAME_SET = Names(make=frozenset)
TRAITS = Traits()
LISTS_OF_NAMES = ListOf(NAMES, mismatch="is not a list of lists")
MAPPING = AnyMapping()
TEXT_MAPPING = MappingOf(ScalarText())
PLAIN_DATA = PlainData()
PLAIN_MAPPING = PlainData(then=MAPPING)

Amount = Annotated[int, AMOUNT]
OptionalAmount = Annotated[int | None, OPTIONAL_AMOUNT]
AmountOrUnset = Annotated[int, AMOUNT_OR_UNSET]
Flag = Annotated[bool, FLAG]
Text = Annotated[str, TEXT]
OptionalText = Annotated[str | None, OPTIONAL_TEXT]
Label = Annotated[str, LABEL]
NameTuple = Annotated[tuple[str, ...], NAMES]
NameSet = Annotated[frozenset[str], NAME_SET]
NameLists = Annotated[tuple[tuple[str, ...], ...], LISTS_OF_NAMES]
TextMapping = Annotated[Mapping[str, str], TEXT_MAPPING]
FreeMapping = Annotated[Mapping[str, Any], MAPPING]
