# SPDX-License-Identifier: Apache-2.0
"""nova's CONF, which is oslo.config's global object: Roost's options and those that plugins register themselves.

Roost itself never reads from it. It is touched only once somebody's own plugin is loaded.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from oslo_config import cfg

from roost.config import Settings

Sections = Mapping[str, Mapping[str, Any]]
Key = tuple[str, str]
"""Section and name of an option."""


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
            for spelling in (*option.old, key):
                yield spelling, value


class PluginConf(cfg.ConfigOpts):
    """oslo.config's object with nova's manners: what Roost has declared may be declared again by a plugin."""

    def register_opt(self, opt: Any, group: Any = None, cli: bool = False, **named: Any) -> bool:
        """Take a plugin's option. Where Roost has one of the name, its value counts, whatever help or default say."""
        key = _name_of(group), opt.dest
        if key in _STATE.declared:
            return False
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

    def import_opt(self, name: str, module_str: str, group: Any = None) -> None:
        """Make sure of an option that some module of nova declares: most are here already."""
        if (_name_of(group), name) not in _STATE.declared:
            super().import_opt(name, module_str, group=group)


class _State:
    """What is in oslo.config's global object."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.declared: set[Key] = set()
        """Options that are Roost's own."""
        self.registered: list[Key] = []
        """Options that plugins brought."""
        self.options = PluginOptions()
        self.is_ours = False
        self.in_use: weakref.WeakSet[PluginOptions] = weakref.WeakSet()
        """Of all pipelines that there are. Where there is more than one, they wait for each other."""


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
        for key in _STATE.registered:
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
    group, name = key
    oslo_group = None if group == "DEFAULT" else group
    if key not in _STATE.declared and key not in _STATE.registered:
        cfg.ConfigOpts.register_opt(cfg.CONF, cfg.Opt(name, type=cast(Any, _as_it_is)), group=oslo_group)
        _STATE.declared.add(key)
    cfg.CONF.set_override(name, value, group=oslo_group)


def _as_it_is(value: Any) -> Any:
    """Roost has read and checked the value."""
    return value


def _give_value(conf: Any, key: Key, options: PluginOptions) -> None:
    """A plugin's option that is not, or not only, in the files: the fleet's is the default, the caller's wins."""
    group, name = key
    oslo_group = None if group == "DEFAULT" else group
    conf.clear_override(name, group=oslo_group)
    conf.clear_default(name, group=oslo_group)
    if name in options.fleet.get(group, ()):
        conf.set_default(name, options.fleet[group][name], group=oslo_group)
    if name in options.explicit.get(group, ()):
        conf.set_override(name, options.explicit[group][name], group=oslo_group)


def _name_of(group: Any) -> str:
    return "DEFAULT" if group is None else str(getattr(group, "name", group))
