# SPDX-License-Identifier: Apache-2.0
"""The kinds of the sections of a fleet file; entries of `hosts` are in `fields.py`."""

from __future__ import annotations

from roost.model import Aggregate, Flavor, Image, ServerGroup
from roost.model.fields import MAPPING, ListOf, MappingOf, PlainData, Record
from roost.model.kinds import OfType, OrNull

_REMEDY = "write - and an entry, line by line"
ENTRIES = OrNull(OfType((list,), "is not a list", _REMEDY))
"""A list with unparsed entries; null is allowed."""


def _records(cls: type) -> OrNull:
    """The kind of a list of records of the class; null is an empty list."""
    return OrNull(ListOf(Record(cls), remedy=_REMEDY, types=(list,)), unset=())


AGGREGATES = _records(Aggregate)
NAMED: dict[str, OrNull] = {
    "flavors": _records(Flavor),
    "images": _records(Image),
    "server_groups": _records(ServerGroup),
}
"""Sections of records that requests name -> kind of the section."""
OPTIONS = OrNull(PlainData(then=MappingOf(OrNull(MAPPING, unset={}, is_published=False))), unset={})
"""The kind of `options`: section -> option -> value."""
SECTIONS = ("hosts", "aggregates", *NAMED, "options")
