# SPDX-License-Identifier: Apache-2.0
"""nova's CONF, which is oslo.config's global object: Roost's options, more of nova's, and those of the plugins.

Roost itself never reads from it. It is touched only once somebody's own plugin is loaded.
"""

from __future__ import annotations

import importlib
import socket
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from oslo_config import cfg

from roost.compat.nova_options import NOVA_OPTIONS
from roost.config import Settings
from roost.config.files import Key, Sections
from roost.errors import OptionError

_HOST: Key = ("DEFAULT", "host")
"""Empty, it stands for the name of the machine."""


@dataclass(frozen=True, eq=False)
class PluginOptions:
    """Where the options of one pipeline come from."""

    settings: Settings | None = None
    """Roost's own options."""
    files: Sequence[Path] = ()
    """Where the options are looked up that plugins register."""
    fleet: Sections = field(default_factory=dict)
    """Options of a fleet file: they count where no file has them."""
    explicit: Sections = field(default_factory=dict)
    """Options of the caller: they win over files."""

    def values(self) -> Iterator[tuple[Key, Any]]:
        """Every option that Roost declares, by each of its spellings."""
        for key, option in self.settings.options.items() if self.settings else ():
            value = self.settings.value(*key) if self.settings else None
            value = list(value) if isinstance(value, tuple) else value
            value = value or socket.gethostname() if key == _HOST else value
            for spelling in (*option.old, key):
                yield spelling, value


class PluginConf(cfg.ConfigOpts):
    """oslo.config's object with nova's manners: what Roost has declared may be declared again by a plugin."""

    def register_opt(self, opt: Any, group: Any = None, cli: bool = False, **named: Any) -> bool:
        """Take a plugin's option. Where Roost has one of the name, its value counts, whatever help or default say."""
        key = _name_of(group), opt.dest
        if key in _STATE.declared:
            return False
        if key in _STATE.lent:  # by its own words, if it brings some
            self.unregister_opt(_STATE.lent[key], group=group)
        is_new = bool(super().register_opt(opt, group=group, cli=cli, **named))
        if is_new and not cli:
            _STATE.registered.append(key)
            _give_value(self, key, _STATE.options)
        return is_new

    def register_cli_opt(self, opt: Any, group: Any = None, **named: Any) -> bool:
        """Take an option that nova would also have on its command line: here that has been read long ago."""
        try:
            return bool(super().register_cli_opt(opt, group=group, **named))
        except cfg.ArgsAlreadyParsedError:
            return self.register_opt(opt, group)

    def unregister_opt(self, opt: Any, group: Any = None, **named: Any) -> None:
        """Let go of an option. oslo.config refuses that once files are read, which they are before plugins come."""
        key = _name_of(group), opt.dest
        if key in _STATE.declared:
            return
        parsed, self._args = self._args, None
        try:
            super().unregister_opt(opt, group=group, **named)
        finally:
            self._args = parsed
        _STATE.lent.pop(key, None)
        if key in _STATE.registered:
            _STATE.registered.remove(key)

    def import_opt(self, name: str, module_str: str, group: Any = None) -> None:
        """Make sure of an option that some module declares; those of nova's that there are, are here already."""
        key = _name_of(group), name
        if _STATE.has(key):
            return
        if not module_str.startswith("nova.") or _has_real_nova():
            super().import_opt(name, module_str, group=group)
        else:
            raise cfg.NoSuchOptError(name, None if group is None else cfg.OptGroup(key[0]))


class _State:
    """What is in oslo.config's global object."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.declared: set[Key] = set()
        """Options that are Roost's own."""
        self.lent: dict[Key, cfg.Opt] = {}
        """Options of nova's that are here for plugins."""
        self.registered: list[Key] = []
        """Options that plugins brought."""
        self.options = PluginOptions()
        self.is_ours = False
        self.in_use: weakref.WeakSet[PluginOptions] = weakref.WeakSet()
        """Of all pipelines that there are. Where there is more than one, they wait for each other."""

    def has(self, key: Key) -> bool:
        """Whether there is such an option, whoever brought it."""
        return key in self.declared or key in self.lent or key in self.registered


_STATE = _State()


@contextmanager
def in_place(options: PluginOptions) -> Iterator[None]:
    """While this is open, CONF says what these options say."""
    _STATE.in_use.add(options)
    with _STATE.lock if len(_STATE.in_use) > 1 else nullcontext():
        if _STATE.options is not options:
            _put_in_place(options)
        yield


def _put_in_place(options: PluginOptions) -> None:
    with _STATE.lock:
        _read_files(options)
        for key, value in options.values():
            _declare(key, value)
        _lend()
        for key in (*_STATE.lent, *_STATE.registered):
            _give_value(cfg.CONF, key, options)
        _STATE.options = options


def registered_options() -> frozenset[Key]:
    """Section and name of every option that plugins brought."""
    return frozenset(_STATE.registered)


def _read_files(options: PluginOptions) -> None:
    """From now on options are looked up in these files - unless the program around us has CONF for itself."""
    conf = cfg.CONF
    is_others = conf._namespace is not None and not _STATE.is_ours  # oslo.config has no other way to tell
    conf.__class__ = PluginConf
    if not is_others:
        files = [str(each) for each in options.files]
        conf(args=[], project="nova", default_config_files=files, default_config_dirs=[])
        _STATE.is_ours = True


def _declare(key: Key, value: Any) -> None:
    name, group = key[1], _oslo_group(key[0])
    if key in _STATE.lent:
        cfg.CONF.unregister_opt(_STATE.lent[key], group=group)
    if not _STATE.has(key):
        cfg.ConfigOpts.register_opt(cfg.CONF, cfg.Opt(name, type=cast(Any, _as_it_is)), group=group)
        _STATE.declared.add(key)
    cfg.CONF.set_override(name, value, group=group)


def _lend() -> None:
    for group, options in NOVA_OPTIONS.items():
        for option in options:
            key = group, option.dest
            if not _STATE.has(key):
                cfg.ConfigOpts.register_opt(cfg.CONF, option, group=_oslo_group(group))
                _STATE.lent[key] = option


def _as_it_is(value: Any) -> Any:
    """Roost has read and checked the value."""
    return value


def _give_value(conf: Any, key: Key, options: PluginOptions) -> None:
    """A plugin's option that is not, or not only, in the files: the fleet's is the default, the caller's wins."""
    section, name = key
    group = _oslo_group(section)
    conf.clear_override(name, group=group)
    conf.clear_default(name, group=group)
    try:
        if name in options.fleet.get(section, ()):
            conf.set_default(name, options.fleet[section][name], group=group)
        if name in options.explicit.get(section, ()):
            conf.set_override(name, options.explicit[section][name], group=group)
    except ValueError as error:
        raise OptionError(f"[{section}] {name}: {error}") from None


def _has_real_nova() -> bool:
    from roost.compat.import_hook import is_ours  # which needs what is here

    with suppress(ImportError):
        importlib.import_module("nova")
    return "nova" in sys.modules and not is_ours("nova")


def _oslo_group(section: str) -> str | None:
    return None if section == "DEFAULT" else section


def _name_of(group: Any) -> str:
    return "DEFAULT" if group is None else str(getattr(group, "name", group))
