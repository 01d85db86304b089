# SPDX-License-Identifier: Apache-2.0
"""Reads options. Precedence: explicit values, environment, config files, the options of a fleet file, defaults.

Sections and names are nova's; deprecated names are accepted with a warning. `names.py` validates names; oslo.config
converts and validates values, and its errors become short messages. Environment variables are those of oslo.config:
OS_SECTION__OPTION.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from oslo_config import cfg

from roost.errors import OptionError
from roost.model.kinds import Number, OfType, WholeNumber
from roost.options.declare import REDACTED, Declared
from roost.options.files import Key, Sections, files_in, one_line, place_of
from roost.options.names import OptionNames
from roost.options.report import report_of
from roost.options.settings import Settings
from roost.options.sources import Origin, Source, Sources, origin_of, read_sources

LOG = logging.getLogger(__name__)

_REFERENCE = re.compile(r"\$\{?(?:DEFAULT\.)?(\w+)")


@dataclass(frozen=True)
class Examined:
    """The settings that were read, and all problems. An option with a problem has no value."""

    settings: Settings
    problems: tuple[OptionError, ...]
    has_old_names: bool
    """Whether any source sets an option by a deprecated name."""


def read_settings(
    owners: Iterable[type],
    files: Sequence[Path] = (),
    fleet: Sections | None = None,
    explicit: Sections | None = None,
    dirs: Sequence[Path] = (),
    has_plugins: Callable[[Settings], bool] = lambda settings: False,
    plugin_options: Callable[[Settings], Collection[Key]] = lambda settings: (),
) -> Settings:
    """Read the options of all owners and log a warning per deprecated name. Raises the first problem as OptionError.

    `dirs`: folders whose *.conf are read after `files`, sorted by name. `has_plugins`: whether the settings name
    third-party plugins, which may declare options of their own. `plugin_options`: loads these plugins and returns
    their options; called only where an unknown name looks like a typo of a built-in one.
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
    """Read the options of all owners and collect all problems. Raises OptionError only for an unreadable file.

    The parameters are those of read_settings.
    """
    names = OptionNames(owners)
    files = [*files, *files_in(dirs)]
    sources = read_sources(files, fleet or {}, explicit or {})
    wrong_names = [each for source in sources for each in names.problems(source)]
    problems: list[OptionError] = []
    conf = _load(names, files, sources)
    for source in sources.below:
        problems += _set_values(conf.set_default, source, names)
    problems += _set_values(conf.set_override, sources.explicit, names)
    values, origins = {}, {}
    for key, option in names.options.items():
        values[key], problem, hint = value_of(conf, option)
        origin = origin_of(option, sources)
        if origin is not None:
            origins[key] = origin
        if problem:
            problems.append(OptionError(f"{_describe_origin(option, origin)}: {problem}", hint))
    settings = Settings(names.options, names.owners, values, origins, partial(report_of, names, sources))
    refused = [each for each in wrong_names if each.is_refused]
    if wrong_names and not refused and has_plugins(settings):
        typos = [each for each in wrong_names if not each.may_belong_to_plugin]
        declared_by_plugins = plugin_options(settings) if typos else ()
        wrong_names = [each for each in typos if each.key not in declared_by_plugins]
    has_old_names = any(map(names.has_old, sources))
    return Examined(settings, (*(each.error for each in refused or wrong_names), *problems), has_old_names)


def _load(names: OptionNames, files: Sequence[Path], sources: Sources) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    for option in names.options.values():
        conf.register_opt(oslo_option(option), group=oslo_group(option))
    for name in _referenced_names(sources.files):
        if names.find("DEFAULT", name) is None:
            conf.register_opt(cfg.StrOpt(name))
    try:
        conf(args=[], project="nova", default_config_files=[str(file) for file in files], default_config_dirs=[])
    except cfg.Error as error:
        raise OptionError(one_line(error)) from None
    return conf


def _referenced_names(files: Iterable[Source]) -> set[str]:
    """Names in [DEFAULT], such as my_ip, that a value in any of the files refers to as $my_ip."""
    sections = [file.sections for file in files]
    lines = (line for each in sections for entries in each.values() for lines in entries.values() for line in lines)
    written = {name for each in sections for name in each.get("DEFAULT", ())}
    return written & {name for line in lines if "$" in line for name in _REFERENCE.findall(line)}


def _set_values(setter: Any, source: Source, names: OptionNames) -> Iterator[OptionError]:
    """Set the values of a mapping in oslo.config; of several names of one option the newest wins. Yields problems."""
    for option in names.options.values():
        if key := source.spelling_of(option):
            value = source.written(key)
            if problem := set_value(setter, option, value):
                written = "" if value is None else f" = {REDACTED if option.secret else value}"
                yield OptionError(f"{place_of(source.sections, *key)}: [{key[0]}] {key[1]}{written}: {problem}")


def _describe_origin(option: Declared, origin: Origin | None) -> str:
    """`place: [section] name = value` as written in its origin, secrets redacted; only the name for a default."""
    if origin is None:
        return f"[{option.group}] {option.name}"
    text = " ".join(origin.written) if isinstance(origin.written, list) else str(origin.written)
    return f"{origin.place}: [{origin.key[0]}] {origin.key[1]} = {REDACTED if option.secret else text}"


_STRING = OfType((str,), "is no list of texts")
_KINDS: dict[Any, WholeNumber | Number | OfType] = {
    int: WholeNumber(),
    float: Number(),
    bool: OfType((int,), "is neither true nor false", takes_flags=True),
    str: OfType((str, int, float), "is no text", takes_flags=True),
}
"""Type of an option -> check of a value from a mapping; oslo.config checks bounds and converts texts."""
_READ_FROM_TEXT = (int, float, bool)


def oslo_group(option: Declared) -> str | None:
    """The section as oslo.config expects it: None for [DEFAULT]."""
    return None if option.group == "DEFAULT" else option.group


def oslo_option(option: Declared) -> cfg.Opt:
    """The oslo.config declaration of an option."""
    old = [cfg.DeprecatedOpt(name, group=group) for group, name in option.old]
    shared: dict[str, Any] = {"default": option.default, "help": option.help, "deprecated_opts": old}
    bounds: dict[str, Any] = {"min": option.min, "max": option.max}
    if option.kind is int:
        return cfg.IntOpt(option.name, **bounds, **shared)
    if option.kind is float:
        return cfg.FloatOpt(option.name, **bounds, **shared)
    if option.kind is bool:
        return cfg.BoolOpt(option.name, **shared)
    if option.kind == tuple[str, ...]:
        shared["default"] = list(option.default)
        return (cfg.MultiStrOpt if option.repeats else cfg.ListOpt)(option.name, **shared)
    return cfg.StrOpt(option.name, choices=option.choices, **shared)


def value_of(conf: cfg.ConfigOpts, option: Declared) -> tuple[Any, str, str]:
    """(value, problem, hint) of an option; the value is None where the problem is not empty."""
    try:
        with _without_oslo_warnings():
            value = conf[option.name] if option.group == "DEFAULT" else conf[option.group][option.name]
    except cfg.NoSuchOptError as error:  # the option is registered: its value refers to one that is not
        return None, problem_of(option, error.__context__ or error), ""
    except (cfg.Error, ValueError) as error:
        return None, problem_of(option, error), ""
    if isinstance(value, float) and not math.isfinite(value):
        return None, _KINDS[float].mismatch, "write a finite one"
    if value is None and option.kind in _READ_FROM_TEXT and option.default is not None:
        return None, "has no value", ""
    return tuple(cast(list[str], value)) if isinstance(value, list) else value, "", ""


def set_value(setter: Any, option: Declared, value: Any) -> str:
    """Set a value of a mapping with `setter`, conf.set_default or conf.set_override. Returns the problem, or ''."""
    if problem := _wrong_kind(option.kind, value):
        return problem
    if option.repeats and isinstance(value, str):
        value = [value]
    if option.kind is bool:
        value = str(value)
    try:
        setter(option.name, value, group=oslo_group(option))
    except (ValueError, TypeError) as error:
        return problem_of(option, error)
    return ""


def _wrong_kind(kind: Any, value: Any) -> str:
    """The problem with the type of a value from a mapping; empty where there is none."""
    if value is None:
        return "has no value"
    if isinstance(value, str) and kind in _READ_FROM_TEXT:
        return ""
    if kind == tuple[str, ...]:
        listed = value if isinstance(value, (list, tuple)) else [value]
        return "" if all(map(_STRING.matches, listed)) else _STRING.mismatch
    wanted = _KINDS.get(kind, _KINDS[str])
    return "" if wanted.matches(value) else wanted.mismatch


def problem_of(option: Declared, error: BaseException) -> str:
    """One line that says why oslo.config rejected a value."""
    text = one_line(error).rpartition("is not valid: ")[2]
    is_conversion = text.startswith(("invalid literal", "could not convert", "Unexpected boolean", "cannot convert"))
    if is_conversion:
        return _KINDS[option.kind].mismatch if option.kind in _READ_FROM_TEXT else text
    return f"{text[:1].lower()}{text[1:]}"


@contextmanager
def _without_oslo_warnings() -> Iterator[None]:
    """Disable the warnings of oslo.config: `read_settings` reports deprecated names, with their file."""
    was_disabled, cfg.LOG.disabled = cfg.LOG.disabled, True
    try:
        yield
    finally:
        cfg.LOG.disabled = was_disabled
