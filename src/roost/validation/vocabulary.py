# SPDX-License-Identifier: Apache-2.0
"""The common kinds. UPPER_CASE names are kinds, which parse values; CamelCase names are types that declare fields."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Annotated, Any

from roost.validation.containers import AnyMapping, ListOf, MappingOf, Names, PlainData, ScalarText, Traits
from roost.validation.kinds import Boolean, Number, OfType, OrNull, PrintableString, String, WholeNumber

LARGEST_RATIO = 1e6
"""The largest allocation ratio."""

AMOUNT = WholeNumber()
AT_LEAST_ONE = WholeNumber(least=1)
OPTIONAL_AMOUNT = OrNull(AMOUNT)
AMOUNT_OR_UNSET = WholeNumber(unset=0)
"""An amount; in lenient mode null and empty values are 0."""
NUMBER = Number()
RATIO = Number(least=0, most=LARGEST_RATIO)
FLAG = Boolean()

TEXT = String()
OPTIONAL_TEXT = OrNull(String(may_be_empty=True))
LABEL = OrNull(String(may_be_empty=True), unset="", is_published=False)
"""A display text, possibly empty; null is an empty text."""
NAME = PrintableString()
IDENTIFIER = OfType((str, int, NoneType), "is no text and no whole number")
"""An id: a text, a whole number, or null."""

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
