# SPDX-License-Identifier: Apache-2.0
"""Config files as written: section -> option -> its lines, with the place of each and before any conversion.

A fleet file may hold options too. It is data that people pass on, so it names no code, no addresses and no files:
each option says beside its declaration whether a fleet file may set it (`Declared.in_fleet`).

`read_conf` reads the files for libraries of OpenStack that declare their options themselves, with oslo.config.
`broker_address` derives `transport_url` from the options that nova used before it (rabbit_host, rabbit_password, ...)
where transport_url is not set. They were in [DEFAULT], later in [oslo_messaging_rabbit]; oslo.messaging no longer
reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from oslo_config import cfg

from roost.errors import OptionError
from roost.model.kinds import shown
from roost.options.declare import REDACTED, Declared

Sections = Mapping[str, Mapping[str, Any]]
"""Section -> option -> value; the value of an option from a file is the list of its lines."""
Key = tuple[str, str]
"""Section and name of an option."""


class LocatedSections(dict[str, Mapping[str, Any]]):
    """Sections of a file. `place(section, option)` returns the file name, with the line if known."""

    def __init__(self, sections: Sections, place: Callable[[str, str], str]) -> None:
        super().__init__(sections)
        self.place = place


def place_of(sections: Sections, section: str, name: str = "") -> str:
    """The place of an option, for error messages: the file, and the line if known; `options` for a mapping."""
    return sections.place(section, name) if isinstance(sections, LocatedSections) else "options"


def check_shape(sections: Mapping[str, Any]) -> None:
    """Raise OptionError where a section does not hold a mapping of options."""
    for section, entries in sections.items():
        if not isinstance(entries, Mapping):
            where = place_of(sections, section)
            raise OptionError(f"{where}: [{section}] is {entries!r}", "write option: value pairs below it")


def files_in(dirs: Iterable[Path]) -> list[Path]:
    """The *.conf files of the folders, in the order of the folders, by name within each."""
    found: list[Path] = []
    for folder in dirs:
        try:
            names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".conf"))
        except OSError as error:
            raise OptionError(f"{folder}: cannot be read: {error.strerror or error}", "name a folder") from None
        found += [folder / name for name in names]
    return found


def read_file(file: Path) -> LocatedSections:
    """Parse a config file; the value of each option is the list of its lines. Raises OptionError if it cannot."""
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(str(file), sections).parse()
    except (OSError, cfg.ParseError, UnicodeDecodeError) as error:
        raise OptionError(f"{file}: cannot be read: {one_line(error)}") from None
    merged: dict[str, dict[str, list[str]]] = {}
    for section, entries in sections.items():
        lines_of = merged.setdefault(section_name(section), {})
        for name, lines in entries.items():
            lines_of.setdefault(name, []).extend(lines)
    return LocatedSections(merged, lambda section, name: str(file))


def section_name(written: str) -> str:
    """The name of a section as oslo.config reads it: in lower case, except [DEFAULT]."""
    return written if written == "DEFAULT" else written.lower()


def one_line(error: BaseException) -> str:
    """The message of an error, with line breaks replaced by spaces."""
    return " ".join(str(error).split())


_REMEDY = "set it in a config file, with --config-file"


def check_fleet_option(sections: Sections, key: Key, option: Declared) -> OptionError | None:
    """The error where a fleet file may not set the option, or not to this value; None where it may."""
    value = sections[key[0]][key[1]]
    where = f"{_place(sections, key)} = {REDACTED if option.secret else shown(value)}"
    if not option.may_be_in_fleet(value):
        return OptionError(f"{where}: a fleet file may not name code, addresses or files", _REMEDY)
    if any("$" in text for text in _texts(value)):
        return OptionError(f"{where}: in a fleet file $ cannot refer to another option", _REMEDY)
    return None


def check_fleet_option_of_plugin(sections: Sections, key: Key) -> None:
    """Raise OptionError where a fleet file sets a plugin's option to a text: it may be an address or a file."""
    if any(True for _ in _texts(sections[key[0]][key[1]])):
        problem = "a fleet file may set an option of a plugin to a number, to true or to false, not to a text"
        raise OptionError(f"{_place(sections, key)}: {problem}", _REMEDY)


def _place(sections: Sections, key: Key) -> str:
    return f"{place_of(sections, *key)}: [{key[0]}] {key[1]}"


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        yield from _texts([*value, *value.values()])


def read_conf(files: Sequence[Path]) -> cfg.ConfigOpts:
    """Values of these config files, to be declared by a library; OptionError where the files cannot be read."""
    conf = cfg.ConfigOpts()
    for name in {name for file in files for name in read_file(file).get("DEFAULT", ())}:
        conf.register_opt(cfg.StrOpt(name))  # a value may refer to it, as in http://$my_ip/placement
    try:
        conf(args=[], project="nova", default_config_files=[str(file) for file in files], default_config_dirs=[])
    except cfg.Error as error:
        raise OptionError(one_line(error)) from None
    return conf


ADDRESS: Key = ("DEFAULT", "transport_url")

_SECTIONS = ("oslo_messaging_rabbit", "DEFAULT")
"""Sections that may hold the parts, newest first."""
_DEFAULTS = {
    "rabbit_host": "localhost",
    "rabbit_hosts": "",
    "rabbit_port": "5672",
    "rabbit_userid": "guest",
    "rabbit_password": "guest",
    "rabbit_virtual_host": "/",
}
ADDRESS_PARTS = frozenset((section, name) for section in _SECTIONS for name in _DEFAULTS)
"""(section, name) of all options from which the address is derived."""


def broker_address(files: Sequence[Sections]) -> str:
    """The address derived from the parts in these files, of which later ones win; empty where there are none."""
    parts = {name: found for name in _DEFAULTS if (found := _last_value(files, name))}
    if not parts:
        return ""
    filled = _DEFAULTS | parts
    login = f"{_quoted(filled['rabbit_userid'])}:{_quoted(filled['rabbit_password'])}"
    brokers = _hosts_and_ports(filled["rabbit_hosts"] or filled["rabbit_host"], filled["rabbit_port"])
    path = filled["rabbit_virtual_host"].removeprefix("/")
    return f"rabbit://{','.join(f'{login}@{broker}' for broker in brokers)}/{_quoted(path)}"


def _last_value(files: Sequence[Sections], name: str) -> str:
    for file in reversed(files):
        for section in _SECTIONS:
            if lines := file.get(section, {}).get(name):
                return str(lines[-1]).strip()
    return ""


def _quoted(text: str) -> str:
    """Percent-encode a part of an address; references to options such as $my_ip and ${my_ip} stay."""
    return quote(text, safe="${}")


def _hosts_and_ports(hosts: str, port: str) -> Iterable[str]:
    """HOST:PORT of each host of a comma-separated list; IPv6 addresses in brackets. `port` is the default."""
    for host in (each.strip() for each in hosts.split(",")):
        bare = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
        has_port = ":" in bare.rpartition("]")[2]
        yield bare if has_port else f"{bare}:{port}"
