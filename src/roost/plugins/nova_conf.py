# SPDX-License-Identifier: Apache-2.0
"""nova's CONF, which is oslo.config's global object, with options of Roost, of nova and of plugins.

Roost never reads from it. It is changed only when a third-party plugin is loaded. NOVA_OPTIONS are options that Roost
does not use but plugins read: under nova's names, from the same files.
"""

from __future__ import annotations

import importlib
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from oslo_config import cfg

from roost.errors import OptionError
from roost.options.files import Key, Sections, check_fleet_option_of_plugin
from roost.options.settings import Settings

NOVA_OPTIONS: dict[str, tuple[cfg.Opt, ...]] = {
    "DEFAULT": (
        cfg.StrOpt("servicegroup_driver", default="db"),
        cfg.IntOpt("periodic_fuzzy_delay", default=60),
        cfg.IntOpt("scheduler_instance_sync_interval", default=120),
        cfg.IntOpt("migrate_max_retries", default=-1),
        cfg.BoolOpt("allow_resize_to_same_host", default=False),
        cfg.BoolOpt("allow_migrate_to_same_host", default=False),
        cfg.IntOpt("max_concurrent_builds", default=10),
        cfg.IntOpt("max_concurrent_live_migrations", default=1),
        cfg.IntOpt("resize_confirm_window", default=0),
        cfg.IntOpt("shelved_offload_time", default=0),
        cfg.IntOpt("instance_build_timeout", default=0),
        cfg.StrOpt("internal_service_availability_zone", default="internal"),
        cfg.StrOpt("default_schedule_zone"),
        cfg.StrOpt("compute_topic", default="compute"),
        cfg.IntOpt("long_rpc_timeout", default=1800),
        cfg.IntOpt("rpc_response_timeout", default=60),
        cfg.StrOpt("multi_instance_display_name_template", default="%(name)s-%(count)d"),
    ),
    "api": (cfg.IntOpt("max_limit", default=1000),),
    "conductor": (cfg.IntOpt("workers"),),
    "filter_scheduler": (cfg.BoolOpt("pci_in_placement", default=False),),
    "notifications": (cfg.StrOpt("notify_on_state_change"),),
    "quota": (
        cfg.IntOpt("instances", default=10),
        cfg.IntOpt("cores", default=20),
        cfg.IntOpt("ram", default=51200),
        cfg.IntOpt("server_groups", default=10),
        cfg.IntOpt("server_group_members", default=10),
        cfg.BoolOpt("recheck_quota", default=True),
        cfg.BoolOpt("count_usage_from_placement", default=False),
    ),
    "scheduler": (
        cfg.IntOpt("max_placement_results", default=1000),
        cfg.IntOpt("discover_hosts_in_cells_interval", default=-1),
    ),
    "upgrade_levels": (cfg.StrOpt("scheduler"),),
    "workarounds": (
        cfg.BoolOpt("disable_group_policy_check_upcall", default=False),
        cfg.BoolOpt("disable_fallback_pcpu_query", default=False),
        cfg.BoolOpt("skip_hypervisor_version_check_on_lm", default=False),
    ),
}
"""Section -> options. Options that Roost itself declares take precedence."""

_EMPTY_VALUES: dict[Key, Callable[[], Any]] = {
    ("DEFAULT", "host"): socket.gethostname,
    ("DEFAULT", "cpu_allocation_ratio"): lambda: 16.0,
    ("DEFAULT", "ram_allocation_ratio"): lambda: 1.5,
    ("DEFAULT", "disk_allocation_ratio"): lambda: 1.0,
}
"""What an empty value or 0 means to plugins. The ratios are the defaults from before Liberty, when schedulers read
them as options; now each host reports its own."""


@dataclass(frozen=True, eq=False)
class PluginOptions:
    """The sources of one pipeline's options."""

    settings: Settings | None = None
    """Options that Roost declares; None if there are none."""
    files: Sequence[Path] = ()
    """Config files with the options that plugins register."""
    fleet: Sections = field(default_factory=dict)
    """Options of a fleet file: defaults for options that are not in the files."""
    explicit: Sections = field(default_factory=dict)
    """Options of the caller: they override the files."""

    def values(self) -> Iterator[tuple[Key, Any]]:
        """(key, value) of every option that Roost declares, once for each of its names."""
        for key, option in self.settings.options.items() if self.settings else ():
            value = self.settings.value(*key) if self.settings else None
            value = list(value) if isinstance(value, tuple) else value
            value = value or _EMPTY_VALUES[key]() if key in _EMPTY_VALUES else value
            for spelling in (*option.old, key):
                yield spelling, value


class PluginConf(cfg.ConfigOpts):
    """oslo.config's object, except that plugins may register options again that Roost has declared."""

    def register_opt(self, opt: Any, group: Any = None, cli: bool = False, **named: Any) -> bool:
        """Register a plugin's option; False if it exists. An option that Roost declares keeps Roost's value."""
        key = _name_of(group), opt.dest
        if key in _STATE.declared:
            return False
        if key in _STATE.provided:  # the plugin's own definition replaces it
            self.unregister_opt(_STATE.provided[key], group=group)
        is_new = bool(super().register_opt(opt, group=group, cli=cli, **named))
        if is_new and not cli:
            _STATE.registered.append(key)
            _set_value(self, key, _STATE.options)
        return is_new

    def register_cli_opt(self, opt: Any, group: Any = None, **named: Any) -> bool:
        """Register a command line option; as an ordinary option if the command line is already parsed."""
        try:
            return bool(super().register_cli_opt(opt, group=group, **named))
        except cfg.ArgsAlreadyParsedError:
            return self.register_opt(opt, group)

    def unregister_opt(self, opt: Any, group: Any = None, **named: Any) -> None:
        """Unregister an option, also after the files are read. oslo.config refuses that, but plugins need it."""
        key = _name_of(group), opt.dest
        if key in _STATE.declared:
            return
        parsed, self._args = self._args, None
        try:
            super().unregister_opt(opt, group=group, **named)
        finally:
            self._args = parsed
        _STATE.provided.pop(key, None)
        if key in _STATE.registered:
            _STATE.registered.remove(key)

    def import_opt(self, name: str, module_str: str, group: Any = None) -> None:
        """Import the module that registers an option; options of nova that Roost provides need no import."""
        key = _name_of(group), name
        if _STATE.has(key):
            return
        if not module_str.startswith("nova.") or _has_real_nova():
            super().import_opt(name, module_str, group=group)
        else:
            raise cfg.NoSuchOptError(name, None if group is None else cfg.OptGroup(key[0]))


class _State:
    """The options that are registered in oslo.config's global object, by origin."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.declared: set[Key] = set()
        """Options that Roost declares."""
        self.provided: dict[Key, cfg.Opt] = {}
        """Further options of nova, provided for plugins."""
        self.registered: list[Key] = []
        """Options that plugins registered."""
        self.options = PluginOptions()
        self.owns_conf = False
        self.in_use: weakref.WeakSet[PluginOptions] = weakref.WeakSet()
        """The options of all live pipelines. If there is more than one, a lock serialises them."""

    def has(self, key: Key) -> bool:
        """Whether there is such an option, of any origin."""
        return key in self.declared or key in self.provided or key in self.registered


_STATE = _State()


@contextmanager
def activated(options: PluginOptions) -> Iterator[None]:
    """Context manager: inside, CONF has the values of these options."""
    _STATE.in_use.add(options)
    with _STATE.lock if len(_STATE.in_use) > 1 else nullcontext():
        if _STATE.options is not options:
            _activate(options)
        yield


def _activate(options: PluginOptions) -> None:
    with _STATE.lock:
        _read_files(options)
        for key, value in options.values():
            _declare(key, value)
        _provide_nova_options()
        for key in (*_STATE.provided, *_STATE.registered):
            _set_value(cfg.CONF, key, options)
        _STATE.options = options


def registered_options() -> frozenset[Key]:
    """(section, name) of every option that plugins registered."""
    return frozenset(_STATE.registered)


def _read_files(options: PluginOptions) -> None:
    """Make CONF read the files, unless the embedding program has already initialised CONF."""
    conf = cfg.CONF
    is_foreign = conf._namespace is not None and not _STATE.owns_conf  # oslo.config has no public way to find out
    conf.__class__ = PluginConf
    if not is_foreign:
        files = [str(each) for each in options.files]
        conf(args=[], project="nova", default_config_files=files, default_config_dirs=[])
        _STATE.owns_conf = True


def _declare(key: Key, value: Any) -> None:
    name, group = key[1], _oslo_group(key[0])
    if key in _STATE.provided:
        cfg.CONF.unregister_opt(_STATE.provided[key], group=group)
    if not _STATE.has(key):
        cfg.ConfigOpts.register_opt(cfg.CONF, cfg.Opt(name, type=cast(Any, _already_parsed)), group=group)
        _STATE.declared.add(key)
    cfg.CONF.set_override(name, value, group=group)


def _provide_nova_options() -> None:
    for group, options in NOVA_OPTIONS.items():
        for option in options:
            key = group, option.dest
            if not _STATE.has(key):
                cfg.ConfigOpts.register_opt(cfg.CONF, option, group=_oslo_group(group))
                _STATE.provided[key] = option


def _already_parsed(value: Any) -> Any:
    """The value unchanged: Roost has already parsed and checked it."""
    return value


def _set_value(conf: Any, key: Key, options: PluginOptions) -> None:
    """Set a plugin's option from the fleet file (as default) and from the caller (as override)."""
    section, name = key
    group = _oslo_group(section)
    conf.clear_override(name, group=group)
    conf.clear_default(name, group=group)
    try:
        if name in options.fleet.get(section, ()):
            check_fleet_option_of_plugin(options.fleet, key)
            conf.set_default(name, options.fleet[section][name], group=group)
        if name in options.explicit.get(section, ()):
            conf.set_override(name, options.explicit[section][name], group=group)
    except ValueError as error:
        raise OptionError(f"[{section}] {name}: {error}") from None


def _has_real_nova() -> bool:
    from roost.plugins.nova_import import is_compat_tree  # circular import

    with suppress(ImportError):
        importlib.import_module("nova")
    return "nova" in sys.modules and not is_compat_tree("nova")


def _oslo_group(section: str) -> str | None:
    return None if section == "DEFAULT" else section


def _name_of(group: Any) -> str:
    return "DEFAULT" if group is None else str(getattr(group, "name", group))
