# SPDX-License-Identifier: Apache-2.0
"""Reads options: explicit ones first, then the environment, the config files, a fleet file's, then the defaults.

Sections and names are nova's, old spellings included, which are told as a warning. `names.py` says which names are
errors, `values.py` which values are; the environment is oslo.config's: OS_SECTION__OPTION.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from oslo_config import cfg

from roost.config.files import Key, LocatedSections, Sections, files_in, one_line, place_of
from roost.config.option_names import OptionNames
from roost.config.oslo_values import oslo_group, oslo_option, put, value_of
from roost.config.redaction import HIDDEN
from roost.config.report import report_of
from roost.config.settings import Settings
from roost.config.sources import Origin, Source, Sources, gather, origin_of
from roost.errors import OptionError
from roost.options import Declared

__all__ = ["Examined", "LocatedSections", "examine", "read_settings"]

LOG = logging.getLogger(__name__)

_REFERENCE = re.compile(r"\$\{?(?:DEFAULT\.)?(\w+)")


@dataclass(frozen=True)
class Examined:
    """What came of a reading: the settings, and everything that is wrong. With problems, some have no value."""

    settings: Settings
    problems: tuple[OptionError, ...]
    has_old_names: bool
    """Whether an option is written by an earlier name somewhere."""


def read_settings(
    owners: Iterable[type],
    files: Sequence[Path] = (),
    fleet: Sections | None = None,
    explicit: Sections | None = None,
    dirs: Sequence[Path] = (),
    has_plugins: Callable[[Settings], bool] = lambda settings: False,
    plugin_options: Callable[[Settings], Collection[Key]] = lambda settings: (),
) -> Settings:
    """Collect the options of all owners once.

    `dirs`: folders whose *.conf are read after the files, sorted. `has_plugins` says whether the settings name
    plugins of people's own, which may have options that nobody here knows. `plugin_options` loads these plugins and
    says which options they have: it is asked where one of these looks like a slip in one of ours.
    """
    found = examine(owners, files, fleet, explicit, dirs, has_plugins, plugin_options)
    if found.problems:
        raise found.problems[0]
    if found.has_old_names:
        for entry in found.settings.report.renamed:
            LOG.warning("%s: %s still works; its name is now %s", entry.place, entry.spelling, entry.new_spelling)
    return found.settings


def examine(
    owners: Iterable[type],
    files: Sequence[Path] = (),
    fleet: Sections | None = None,
    explicit: Sections | None = None,
    dirs: Sequence[Path] = (),
    has_plugins: Callable[[Settings], bool] = lambda settings: False,
    plugin_options: Callable[[Settings], Collection[Key]] = lambda settings: (),
) -> Examined:
    """The same, with all that is wrong instead of an error for the first of it. A file must be readable even so."""
    names = OptionNames(owners)
    files = [*files, *files_in(dirs)]
    sources = gather(files, fleet or {}, explicit or {})
    wrong_names = [each for source in sources for each in names.problems(source)]
    problems: list[OptionError] = []
    conf = _load(names, files, sources)
    for source in sources.below:
        problems += _put_all(conf.set_default, source, names)
    problems += _put_all(conf.set_override, sources.explicit, names)
    values, origins = {}, {}
    for key, option in names.options.items():
        values[key], problem, hint = value_of(conf, option)
        origin = origin_of(option, sources)
        if origin is not None:
            origins[key] = origin.place
        if problem:
            problems.append(OptionError(f"{_spelt_out(option, origin)}: {problem}", hint))
    settings = Settings(names.options, names.owners, values, origins, partial(report_of, names, sources))
    if wrong_names and has_plugins(settings):
        slips = [each for each in wrong_names if not each.may_be_of_a_plugin]
        theirs = plugin_options(settings) if slips else ()
        wrong_names = [each for each in slips if each.key not in theirs]
    has_old_names = any(map(names.has_old, sources))
    return Examined(settings, (*(each.error for each in wrong_names), *problems), has_old_names)


def _load(names: OptionNames, files: Sequence[Path], sources: Sources) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    for option in names.options.values():
        conf.register_opt(oslo_option(option), group=oslo_group(option))
    for name in _referred_to(sources.files):
        if names.find("DEFAULT", name) is None:
            conf.register_opt(cfg.StrOpt(name))
    try:
        conf(args=[], project="nova", default_config_files=[str(file) for file in files], default_config_dirs=[])
    except cfg.Error as error:
        raise OptionError(one_line(error)) from None
    return conf


def _referred_to(files: Iterable[Source]) -> set[str]:
    """Options of others in [DEFAULT], such as my_ip, that values refer to as $my_ip."""
    sections = [file.sections for file in files]
    lines = (line for each in sections for entries in each.values() for lines in entries.values() for line in lines)
    written = {name for each in sections for name in each.get("DEFAULT", ())}
    return written & {name for line in lines if "$" in line for name in _REFERENCE.findall(line)}


def _put_all(setter: Any, source: Source, names: OptionNames) -> Iterator[OptionError]:
    """Put the values of a mapping in place, by any spelling of their names; the newest spelling wins."""
    for option in names.options.values():
        if key := source.spelling_of(option):
            value = source.written(key)
            if problem := put(setter, option, value):
                said = "" if value is None else f" = {HIDDEN if option.secret else value}"
                yield OptionError(f"{place_of(source.sections, *key)}: [{key[0]}] {key[1]}{said}: {problem}")


def _spelt_out(option: Declared, origin: Origin | None) -> str:
    """The option as it is written, with the file."""
    if origin is None:
        return f"[{option.group}] {option.name}"
    said = " ".join(origin.written) if isinstance(origin.written, list) else str(origin.written)
    return f"{origin.place}: [{origin.key[0]}] {origin.key[1]} = {HIDDEN if option.secret else said}"
