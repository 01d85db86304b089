# SPDX-License-Identifier: Apache-2.0
"""What was found in the files: understood, under an old name, of no use here, or none of our business."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from roost.config.broker_address import PARTS
from roost.config.files import Key, place_of
from roost.config.nova_names import PASSED_ON, UNUSED
from roost.config.option_names import OptionNames
from roost.config.redaction import HIDDEN, shown
from roost.config.sources import Source, Sources, origin_of
from roost.options import Declared


@dataclass(frozen=True)
class ReportEntry:
    """One option as it stands in a file."""

    section: str
    name: str
    place: str
    """The file; with the line where it is known."""
    value: str = ""
    """As written, without secrets."""
    option: Declared | None = None
    """What it stands for; None where it changes nothing here."""
    why: str = ""
    """Why it changes nothing: the reason it is unused, or what is said elsewhere and counts instead."""

    @property
    def spelling(self) -> str:
        """As people write it: [section] name."""
        return f"[{self.section}] {self.name}"

    @property
    def new_spelling(self) -> str:
        """The option's own name, which may be another than the one in the file."""
        return f"[{self.option.group}] {self.option.name}" if self.option else self.spelling

    @property
    def is_part(self) -> bool:
        """Whether the option is made of this and others, such as the address of its parts."""
        return (self.section, self.name) in PARTS


@dataclass(frozen=True)
class SourceReport:
    """What one file held."""

    source: str
    understood: tuple[ReportEntry, ...] = ()
    """Options by today's names."""
    renamed: tuple[ReportEntry, ...] = ()
    """Options by old names: understood too."""
    unused: tuple[ReportEntry, ...] = ()
    """Options of nova that change nothing here."""
    unknown: tuple[ReportEntry, ...] = ()
    """Options in sections of ours that must belong to people's own plugins; where there are none, they are errors."""
    passed_on: Mapping[str, int] = field(default_factory=dict)
    """Section -> number of options in it that oslo.messaging takes as they are."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Section -> number of options in it that belong to other services."""


@dataclass(frozen=True)
class ConfigReport:
    """All that was read, in the order in which it was: a later source wins over an earlier one."""

    sources: tuple[SourceReport, ...] = ()

    @property
    def understood(self) -> Iterator[ReportEntry]:
        """Options by today's names, of all sources."""
        return (entry for source in self.sources for entry in source.understood)

    @property
    def renamed(self) -> Iterator[ReportEntry]:
        """Options by old names, of all sources."""
        return (entry for source in self.sources for entry in source.renamed)

    @property
    def unused(self) -> Iterator[ReportEntry]:
        """Options that change nothing here, of all sources."""
        return (entry for source in self.sources for entry in source.unused)


def report_of(names: OptionNames, sources: Sources) -> ConfigReport:
    """What stands in each source, and what became of it."""
    real = (source for source in sources if source.sections and not source.is_made)
    return ConfigReport(tuple(_source_report(names, source, sources) for source in real))


def _source_report(names: OptionNames, source: Source, sources: Sources) -> SourceReport:
    understood: list[ReportEntry] = []
    renamed: list[ReportEntry] = []
    unused: list[ReportEntry] = []
    unknown: list[ReportEntry] = []
    passed_on: dict[str, int] = {}
    ignored: dict[str, int] = {}
    for section, entries in source.sections.items():
        for name, written in entries.items():
            key, place = (section, name), place_of(source.sections, section, name)
            if option := names.find(section, name):
                why = _counts_instead(option, key, source, sources)
                entry = ReportEntry(section, name, place, _as_written(option, key, written), option, why)
                (renamed if names.is_old(section, name) else understood).append(entry)
            elif why := UNUSED.get(section, {}).get(name, ""):
                unused.append(ReportEntry(section, name, place, why=why))
            elif names.is_strict(section):
                unknown.append(ReportEntry(section, name, place))
            else:
                counts = passed_on if section in PASSED_ON else ignored
                counts[section] = counts.get(section, 0) + 1
    return SourceReport(
        source.title, tuple(understood), tuple(renamed), tuple(unused), tuple(unknown), passed_on, ignored
    )


def _as_written(option: Declared, key: Key, written: Any) -> str:
    if key in PARTS:
        return HIDDEN if "password" in key[1] else " ".join(written)
    lines = written if isinstance(written, (list, tuple)) else [written]
    if option.kind == tuple[str, ...] and not option.repeats:
        lines = [each.strip() for line in lines for each in str(line).split(",")]
    return " ".join(shown(option, lines).split())


def _counts_instead(option: Declared, key: Key, source: Source, sources: Sources) -> str:
    """What is said elsewhere and wins over this; empty where this counts. Lines that repeat add up over files."""
    origin = origin_of(option, sources)
    if origin is None or (option.repeats and source.is_file and origin.source and origin.source.is_file):
        return ""
    if key in PARTS and origin.source and origin.source.is_made:
        return ""
    if origin.source is not source:
        return f"{origin.place} counts"
    return "" if origin.key == key else f"[{origin.key[0]}] {origin.key[1]} counts"
