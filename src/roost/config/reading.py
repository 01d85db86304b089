# SPDX-License-Identifier: Apache-2.0
"""Reads options: explicit ones first, then the config files, then a fleet file's, then the defaults.

Sections and names are nova's, old spellings included. In a section that is ours an unknown name is an error with
the nearest match; other sections belong to other services and are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from oslo_config import cfg

from roost.config.nova_names import UNUSED
from roost.errors import OptionError, nearest
from roost.options import Declared, declared

Options = TypeVar("Options")
Sections = Mapping[str, Mapping[str, Any]]


class LocatedSections(dict[str, Mapping[str, Any]]):
    """Section -> option -> value, from a file: `place(section, option)` says where in the file that is."""

    def __init__(self, sections: Sections, place: Callable[[str, str], str]) -> None:
        super().__init__(sections)
        self.place = place


class Settings:
    """The value of every declared option."""

    def __init__(self, values: Mapping[tuple[str, str], Any]) -> None:
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
        group = None if option.group == "DEFAULT" else option.group
        conf.register_opt(_oslo_option(option), group=group)
    for file in files:
        _check_names(_sections_of(file), options, str(file))
    try:
        conf(
            args=[],
            project="nova",
            default_config_files=[str(file) for file in files],
            default_config_dirs=[],
        )
    except cfg.Error as error:
        raise OptionError(_one_line(error)) from None
    _apply(conf.set_default, fleet or {}, options, "options")
    _apply(conf.set_override, explicit or {}, options, "options")
    return Settings({key: _value_of(conf, option) for key, option in options.items()})


def _merge(owners: Iterable[type]) -> dict[tuple[str, str], Declared]:
    """Every option once; owners that share one must agree on it."""
    options: dict[tuple[str, str], Declared] = {}
    for owner in owners:
        for option in declared(owner):
            options.setdefault((option.group, option.name), option)
    return options


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
    parser = cfg.ConfigParser(str(file), sections := {})  # type: ignore[var-annotated]
    try:
        parser.parse()
    except (OSError, cfg.ParseError, UnicodeDecodeError) as error:
        raise OptionError(f"{file}: cannot be read: {_one_line(error)}") from None
    return sections


def _check_names(sections: Sections, options: Mapping[tuple[str, str], Declared], where: str) -> None:
    ours = {group for group, _ in options} - {"DEFAULT"}
    known = {key for option in options.values() for key in ((option.group, option.name), *option.old)}
    for section, entries in sections.items():
        if section not in ours:
            continue
        names = {name for group, name in known if group == section} | UNUSED.get(section, frozenset())
        for name in entries:
            if name not in names:
                raise OptionError(f"{where}: [{section}] has no option {name}", nearest(name, names))


def _apply(setter: Any, sections: Sections, options: Mapping[tuple[str, str], Declared], where: str) -> None:
    """Put values from a dict in place, by any spelling of their names; the newest spelling wins."""
    by_old_name = {key: option for option in options.values() for key in option.old}
    _check_shape(sections, {group for group, _ in (*options, *by_old_name)} | set(UNUSED), where)
    _check_names(sections, options, where)
    spelt = [(group, name, value) for group, names in sections.items() for name, value in names.items()]
    for group, name, value in sorted(spelt, key=lambda each: (each[0], each[1]) in options):
        option = options.get((group, name)) or by_old_name.get((group, name))
        if option is None:
            if group == "DEFAULT":
                raise OptionError(f"{where}: [DEFAULT] has no option {name}", nearest(name, _names(options)))
            continue
        try:
            if option.repeats and isinstance(value, str):
                value = [value]
            setter(option.name, value, group=None if option.group == "DEFAULT" else option.group)
        except (ValueError, TypeError) as error:
            raise OptionError(f"{where}: [{group}] {name} = {value!r}: {_one_line(error)}") from None


def _names(options: Mapping[tuple[str, str], Declared]) -> set[str]:
    found = {name for group, name in options if group == "DEFAULT"}
    return found | {name for option in options.values() for group, name in option.old if group == "DEFAULT"}


def _check_shape(sections: Sections, known: Iterable[str], where: str) -> None:
    for section, entries in sections.items():
        if section not in known:
            raise OptionError(f"{where}: there is no section [{section}]", nearest(section, known))
        if not isinstance(entries, Mapping):
            raise OptionError(f"{where}: [{section}] is {entries!r}", "write option: value pairs below it")


def _value_of(conf: cfg.ConfigOpts, option: Declared) -> Any:
    try:
        value = conf[option.name] if option.group == "DEFAULT" else conf[option.group][option.name]
    except (cfg.Error, ValueError) as error:
        raise OptionError(f"[{option.group}] {option.name}: {_one_line(error)}") from None
    if value is None and option.default is not None:
        raise OptionError(f"[{option.group}] {option.name} has no value", f"the default is {option.default!r}")
    return tuple(cast(list[str], value)) if isinstance(value, list) else value


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
