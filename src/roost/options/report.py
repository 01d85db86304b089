# SPDX-License-Identifier: Apache-2.0
"""Reports of options: those in each source by class, and a sample config file with every option explained.

An option in a source is understood, deprecated by name, unused, unknown, or one of other services.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from roost.options.declare import REDACTED, Declared
from roost.options.files import ADDRESS_PARTS, Key, place_of
from roost.options.names import PASSED_ON, UNUSED, OptionNames, redact
from roost.options.sources import Source, Sources, origin_of


@dataclass(frozen=True)
class ReportEntry:
    """One option as written in a source."""

    section: str
    name: str
    place: str
    """The file, and the line if known."""
    value: str = ""
    """The value as written, secrets redacted."""
    option: Declared | None = None
    """The option that it sets; None where it has no effect."""
    why: str = ""
    """Why it has no effect: the reason why it is unused, or what overrides it. Empty where it has one."""

    @property
    def spelling(self) -> str:
        """`[section] name` as written in the source."""
        return f"[{self.section}] {self.name}"

    @property
    def new_spelling(self) -> str:
        """`[section] name` with the current name of the option; the written one where there is no option."""
        return f"[{self.option.group}] {self.option.name}" if self.option else self.spelling

    @property
    def is_part(self) -> bool:
        """Whether an option is derived from this and further ones, as transport_url is from rabbit_host."""
        return (self.section, self.name) in ADDRESS_PARTS


@dataclass(frozen=True)
class SourceReport:
    """The options of one source, by class."""

    source: str
    understood: tuple[ReportEntry, ...] = ()
    """Options written by their current names."""
    renamed: tuple[ReportEntry, ...] = ()
    """Options written by deprecated names; they take effect."""
    unused: tuple[ReportEntry, ...] = ()
    """Options of nova that have no effect in Roost."""
    unknown: tuple[ReportEntry, ...] = ()
    """Options in strict sections that are taken for those of third-party plugins; without plugins they are errors."""
    passed_on: Mapping[str, int] = field(default_factory=dict)
    """Section -> number of its options that a library reads itself, such as oslo.messaging."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Section -> number of its options that belong to other services."""


@dataclass(frozen=True)
class ConfigReport:
    """The reports of all sources, in ascending order of precedence."""

    sources: tuple[SourceReport, ...] = ()

    @property
    def understood(self) -> Iterator[ReportEntry]:
        """Options written by their current names, in all sources."""
        return (entry for source in self.sources for entry in source.understood)

    @property
    def renamed(self) -> Iterator[ReportEntry]:
        """Options written by deprecated names, in all sources."""
        return (entry for source in self.sources for entry in source.renamed)

    @property
    def unused(self) -> Iterator[ReportEntry]:
        """Options of nova that have no effect in Roost, in all sources."""
        return (entry for source in self.sources for entry in source.unused)


def report_of(names: OptionNames, sources: Sources) -> ConfigReport:
    """Classify the options of all sources that are not empty; derived ones are left out."""
    written = (source for source in sources if source.sections and not source.is_derived)
    return ConfigReport(tuple(_source_report(names, source, sources) for source in written))


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
                why = _overridden_by(option, key, source, sources)
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
    if key in ADDRESS_PARTS:
        return REDACTED if "password" in key[1] else " ".join(written)
    lines = written if isinstance(written, (list, tuple)) else [written]
    if option.kind == tuple[str, ...] and not option.repeats:
        lines = [each.strip() for line in lines for each in str(line).split(",")]
    return " ".join(redact(option, lines).split())


def _overridden_by(option: Declared, key: Key, source: Source, sources: Sources) -> str:
    """What overrides this option, as a phrase; empty where nothing does. Repeated options of files accumulate."""
    origin = origin_of(option, sources)
    if origin is None or (option.repeats and source.is_file and origin.source and origin.source.is_file):
        return ""
    if key in ADDRESS_PARTS and origin.source and origin.source.is_derived:
        return ""
    if origin.source is not source:
        return f"{origin.place} counts"
    return "" if origin.key == key else f"[{origin.key[0]}] {origin.key[1]} counts"


WIDTH = 80
"""Characters per line of the sample."""
HEAD = """\
# Every option of Roost, with its default. Take away the # before an option to set it.
# Sections and names are nova's: an existing nova.conf works as it is.
"""

_KIND_NAMES = {int: "whole number", float: "number", bool: "true or false"}


def sample(options: Iterable[Declared]) -> str:
    """The text of the sample file: [DEFAULT] first, then sections and options by name."""
    ordered = sorted(options, key=lambda each: (each.group != "DEFAULT", each.group, each.name))
    lines = [HEAD]
    section = ""
    for option in ordered:
        if option.group != section:
            section = option.group
            lines.append(f"\n[{section}]\n")
        lines += _lines_of(option)
        lines.append("")
    return "\n".join(lines)


def _lines_of(option: Declared) -> Iterator[str]:
    meaning = f"{option.help[:1].upper()}{option.help[1:]}".rstrip(".")
    unset = "; not set by default" if option.default in (None, "", ()) else ""
    about = [f"{meaning}.", f"{describe_kind(option)}{unset}."]
    if option.old:
        about.append(f"Old names: {', '.join(f'[{group}] {name}' for group, name in option.old)}.")
    if not option.reloads:
        about.append("A new value needs a restart.")
    for sentence in about:
        yield from textwrap.wrap(sentence, WIDTH, initial_indent="# ", subsequent_indent="#   ")
    for value in _file_values(option):
        yield f"#{option.name} = {value}".rstrip()


def describe_kind(option: Declared) -> str:
    """A phrase on what an option accepts: its type, bounds and choices."""
    if option.choices:
        return f"One of {', '.join(option.choices)}"
    kind = _KIND_NAMES.get(option.kind, "text")
    if option.kind == tuple[str, ...]:
        kind = "list, a line each" if option.repeats else "list, separated by commas"
    bounds = [f"at least {option.min:g}"] if option.min is not None else []
    bounds += [f"at most {option.max:g}"] if option.max is not None else []
    return ", ".join([f"{kind[:1].upper()}{kind[1:]}", *bounds])


def _file_values(option: Declared) -> list[str]:
    """The default as written in a file, one text per line."""
    if isinstance(option.default, tuple):
        texts = [_file_value(each) for each in option.default]
        return (texts or [""]) if option.repeats else [",".join(texts)]
    return [_file_value(option.default)]


def _file_value(value: Any) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("$", "$$")
