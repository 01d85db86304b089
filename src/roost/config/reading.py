# SPDX-License-Identifier: Apache-2.0
"""Reads options: explicit ones first, then the config files, then a fleet file's, then the defaults.

Sections and names are nova's, old spellings included, which are told as a warning. In a section that is ours an
unknown name is an error with the nearest match; other sections belong to other services and are left alone.
"""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from oslo_config import cfg

from roost.config.nova_names import STRICT, UNUSED
from roost.errors import OptionError, nearest
from roost.options import Declared, declared

LOG = logging.getLogger(__name__)

Options = TypeVar("Options")
Sections = Mapping[str, Mapping[str, Any]]
Key = tuple[str, str]
"""Section and name of an option."""

_KINDS: dict[Any, str] = {int: "is not a whole number", float: "is not a number", bool: "is neither true nor false"}


class LocatedSections(dict[str, Mapping[str, Any]]):
    """Section -> option -> value, from a file: `place(section, option)` says where in the file that is."""

    def __init__(self, sections: Sections, place: Callable[[str, str], str]) -> None:
        super().__init__(sections)
        self.place = place


class Settings:
    """The value of every declared option."""

    def __init__(self, values: Mapping[Key, Any]) -> None:
        self._values = values

    def fill(self, options: type[Options]) -> Options:
        """An options class of its owner, with the values that were read."""
        values = {each.field: self._values[each.group, each.name] for each in declared(options)}
        return options(**values)


def read_settings(
    owners: Iterable[type],
    files: Sequence[Path] = (),
    fleet: Sections | None = None,
    explicit: Sections | None = None,
) -> Settings:
    """Collect the options of all owners once."""
    options = _merge(owners)
    conf = cfg.ConfigOpts()
    for option in options.values():
        conf.register_opt(_oslo_option(option), group=_oslo_group(option))
    written = [LocatedSections(_sections_of(file), _always(str(file))) for file in files]
    for sections in written:
        _check_section_names(sections, options)
        _check_names(sections, options)
    names = [str(file) for file in files]
    try:
        conf(args=[], project="nova", default_config_files=names, default_config_dirs=[])
    except cfg.Error as error:
        raise OptionError(_one_line(error)) from None
    _apply(conf.set_default, fleet or {}, options)
    _apply(conf.set_override, explicit or {}, options)
    with _oslo_silent():
        return Settings({key: _value_of(conf, option, written) for key, option in options.items()})


def _merge(owners: Iterable[type]) -> dict[Key, Declared]:
    """Every option once; owners that share one must agree on it."""
    options: dict[Key, Declared] = {}
    for owner in owners:
        for option in declared(owner):
            options.setdefault((option.group, option.name), option)
    return options


def _oslo_group(option: Declared) -> str | None:
    return None if option.group == "DEFAULT" else option.group


def _oslo_option(option: Declared) -> cfg.Opt:
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


def _sections_of(file: Path) -> Sections:
    sections: dict[str, Any] = {}
    parser = cfg.ConfigParser(str(file), sections)
    try:
        parser.parse()
    except (OSError, cfg.ParseError, UnicodeDecodeError) as error:
        raise OptionError(f"{file}: cannot be read: {_one_line(error)}") from None
    return sections


def _always(place: str) -> Callable[[str, str], str]:
    return lambda section, name: place


def _place(sections: Sections, section: str, name: str = "") -> str:
    """Where an option stands, for errors: the file, or that it was given as a mapping."""
    return sections.place(section, name) if isinstance(sections, LocatedSections) else "options"


def _check_section_names(sections: Sections, options: Mapping[Key, Declared]) -> None:
    """A config file has many sections of other services; one that is almost ours is a slip of the pen."""
    ours = {group for group, _ in options} | set(UNUSED)
    for section in sections.keys() - ours:
        if difflib.get_close_matches(section, ours, cutoff=0.9):
            raise _no_section(sections, section, ours)


def _check_names(sections: Sections, options: Mapping[Key, Declared]) -> None:
    current = {key: option for option in options.values() for key in option.old} | dict(options)
    for section, entries in sections.items():
        known = {name for group, name in current if group == section}
        for name in entries:
            if (section, name) in options:
                continue
            if (section, name) in current:
                _tell_new_name(sections, (section, name), current[section, name])
            elif section == "DEFAULT":
                _doubt(sections, name, known)
            elif section in STRICT and name not in UNUSED.get(section, ()):
                where = _place(sections, section, name)
                hint = nearest(name, known | UNUSED.get(section, frozenset()))
                raise OptionError(f"{where}: [{section}] has no option {name}", hint)


def _tell_new_name(sections: Sections, key: Key, option: Declared) -> None:
    where, new = _place(sections, *key), f"[{option.group}] {option.name}"
    LOG.warning("%s: [%s] %s still works; its name is now %s", where, *key, new)


def _doubt(sections: Sections, name: str, known: set[str]) -> None:
    """[DEFAULT] is shared by all services, so an unknown name there is no error; one that is almost ours is told."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
    if close and all(name not in names for names in UNUSED.values()):
        where = _place(sections, "DEFAULT", name)
        LOG.warning("%s: [DEFAULT] %s changes nothing here; did you mean %s?", where, name, close[0])


def _apply(setter: Any, sections: Sections, options: Mapping[Key, Declared]) -> None:
    """Put values from a mapping in place, by any spelling of their names; the newest spelling wins."""
    by_old_name = {key: option for option in options.values() for key in option.old}
    _check_shape(sections, {group for group, _ in options} | {group for group, _ in by_old_name} | set(UNUSED))
    _check_names(sections, options)
    spelt = [(group, name, value) for group, names in sections.items() for name, value in names.items()]
    for group, name, value in sorted(spelt, key=lambda each: (each[0], each[1]) in options):
        option = options.get((group, name)) or by_old_name.get((group, name))
        if option is None and group == "DEFAULT":
            where = _place(sections, group, name)
            raise OptionError(f"{where}: [DEFAULT] has no option {name}", nearest(name, _default_names(options)))
        problem = _apply_one(setter, option, value) if option else ""
        if problem:
            shown = "***" if option and option.secret else value
            spelt_out = f"[{group}] {name}" + ("" if value is None else f" = {shown}")
            raise OptionError(f"{_place(sections, group, name)}: {spelt_out}: {problem}")


def _apply_one(setter: Any, option: Declared, value: Any) -> str:
    """Put one value in place, or say what is wrong with it."""
    if problem := _wrong_kind(option.kind, value):
        return problem
    if option.repeats and isinstance(value, str):
        value = [value]
    if option.kind is bool:
        value = str(value)
    try:
        setter(option.name, value, group=_oslo_group(option))
    except (ValueError, TypeError) as error:
        return _problem(option, error)
    return ""


def _wrong_kind(kind: Any, value: Any) -> str:
    """What is wrong with the type of a value that is no text from a file; empty where nothing is."""
    if value is None:
        return "has no value"
    if isinstance(value, str) and kind in _KINDS:
        return ""
    if isinstance(value, bool) and kind in (int, float):
        return _KINDS[kind]
    if kind is int or kind is float:
        fits = isinstance(value, int) or (isinstance(value, float) and (kind is float or value.is_integer()))
        return "" if fits else _KINDS[kind]
    if kind is bool:
        return "" if isinstance(value, (bool, int)) else _KINDS[bool]
    if kind == tuple[str, ...]:
        listed = value if isinstance(value, (list, tuple)) else [value]
        return "" if all(isinstance(each, str) for each in listed) else "is no list of texts"
    return "" if isinstance(value, (str, int, float)) else "is no text"


def _default_names(options: Mapping[Key, Declared]) -> set[str]:
    found = {name for group, name in options if group == "DEFAULT"}
    return found | {name for option in options.values() for group, name in option.old if group == "DEFAULT"}


def _check_shape(sections: Mapping[str, Any], known: Iterable[str]) -> None:
    for section, entries in sections.items():
        if section not in known:
            raise _no_section(sections, section, known)
        if not isinstance(entries, Mapping):
            where = _place(sections, section)
            raise OptionError(f"{where}: [{section}] is {entries!r}", "write option: value pairs below it")


def _no_section(sections: Sections, section: str, known: Iterable[str]) -> OptionError:
    return OptionError(f"{_place(sections, section)}: there is no section [{section}]", nearest(section, known))


def _value_of(conf: cfg.ConfigOpts, option: Declared, written: Sequence[Sections]) -> Any:
    try:
        value = conf[option.name] if option.group == "DEFAULT" else conf[option.group][option.name]
    except (cfg.Error, ValueError) as error:
        raise OptionError(f"{_spelling(option, written)}: {_problem(option, error)}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise OptionError(f"{_spelling(option, written)}: {_KINDS[float]}", "write a finite one")
    if value is None and option.kind in _KINDS and option.default is not None:
        raise OptionError(f"{_spelling(option, written)}: has no value")
    return tuple(cast(list[str], value)) if isinstance(value, list) else value


def _spelling(option: Declared, written: Sequence[Sections]) -> str:
    """The option as it is written in the last file that has it, with the file."""
    for sections in reversed(written):
        for group, name in ((option.group, option.name), *option.old):
            if name in sections.get(group, {}):
                raw = "***" if option.secret else " ".join(sections[group][name])
                return f"{_place(sections, group, name)}: [{group}] {name} = {raw}"
    return f"[{option.group}] {option.name}"


def _problem(option: Declared, error: BaseException) -> str:
    """What oslo.config has against a value, without its internals."""
    said = _one_line(error).rpartition("is not valid: ")[2]
    is_conversion = said.startswith(("invalid literal", "could not convert", "Unexpected boolean", "cannot convert"))
    return _KINDS.get(option.kind, said) if is_conversion else f"{said[:1].lower()}{said[1:]}"


@contextmanager
def _oslo_silent() -> Iterator[None]:
    """We tell of old names ourselves, with the file that has them."""
    was_disabled, cfg.LOG.disabled = cfg.LOG.disabled, True
    try:
        yield
    finally:
        cfg.LOG.disabled = was_disabled


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
