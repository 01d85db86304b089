# SPDX-License-Identifier: Apache-2.0
"""The kinds of the sections of a fleet file; the entries of `hosts` have a table of their own, in `fields.py`."""

from __future__ import annotations

from roost.model import Aggregate, Flavor, Image, ServerGroup
from roost.validation.containers import ListOf, MappingOf, PlainData
from roost.validation.kinds import OfType, OrNull
from roost.validation.records import Record
from roost.validation.vocabulary import MAPPING

_REMEDY = "write - and an entry, line by line"
ENTRIES = OrNull(OfType((list,), "is not a list", _REMEDY))
"""A list, its entries as they are."""


def _records(cls: type) -> OrNull:
    """A list of such records; null is an empty one."""
    return OrNull(ListOf(Record(cls), remedy=_REMEDY, types=(list,)), unset=())


AGGREGATES = _records(Aggregate)
NAMED: dict[str, OrNull] = {
    "flavors": _records(Flavor),
    "images": _records(Image),
    "server_groups": _records(ServerGroup),
}
"""Sections of what a request may name."""
OPTIONS = OrNull(PlainData(then=MappingOf(OrNull(MAPPING, unset={}, is_published=False))), unset={})
"""Section of options -> option -> value."""
SECTIONS = ("hosts", "aggregates", *NAMED, "options")
