# SPDX-License-Identifier: Apache-2.0
"""The options that a snapshot holds: all that decide where servers go, and that data may set.

The rule is that of fleet files: no code, no addresses, no files (`roost.options.files`). A plugin of your own
is held by the name of its class; where its code is, a config file has to say on each machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roost.filters.base import Filter
from roost.options.declare import Declared
from roost.options.files import Key, Sections, check_fleet_option
from roost.options.settings import Settings
from roost.plugins.registry import FILTERS, WEIGHERS, is_built_in_path, is_class_name
from roost.weighers.base import Weigher

OWN_PLUGIN_HINT = (
    "it is not built in: name a config file that says where it is, "
    "with --config-file and [filter_scheduler] available_filters or weight_classes"
)
_AVAILABLE, _WEIGHERS = ("filter_scheduler", "available_filters"), ("filter_scheduler", "weight_classes")
_NAMES_OF_CLASSES = {
    ("filter_scheduler", "enabled_filters"),
    ("filter_scheduler", "baremetal_enabled_filters"),
    _WEIGHERS,
}


def deciding_options(settings: Settings) -> dict[str, dict[str, Any]]:
    """Section -> option -> value, defaults included, so that another version of Roost decides by the same values."""
    found: dict[str, dict[str, Any]] = {}
    for key, option in _declared(settings):
        value = settings.value(*key)
        value = list(value) if isinstance(value, tuple) else value
        if key in _NAMES_OF_CLASSES:
            value = [each if is_built_in_path(each) else each.rpartition(".")[2] for each in value]
        is_known = value is not None and key != _AVAILABLE and not option.secret
        if is_known and check_fleet_option({key[0]: {key[1]: value}}, key, option) is None:
            found.setdefault(key[0], {})[key[1]] = value
    return found


def _declared(settings: Settings) -> Iterator[tuple[Key, Declared]]:
    """The options of the scheduler's decisions, and those of built-in filters and weighers."""
    built_in: tuple[type[Filter] | type[Weigher], ...] = (*FILTERS, *WEIGHERS)
    plugins = {each.Options for each in built_in if each.Options is not None}
    for owner, options in settings.owners.items():
        if owner in plugins or getattr(owner, "decides_placements", False):
            yield from (((each.group, each.name), each) for each in options)


def with_own_weighers(options: Sections, paths: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """The options of a snapshot, in which each weigher that is not built in is named by its path among `paths`.

    `paths`: the `weight_classes` of config files on this machine. There is no option for weighers like
    `available_filters`, so these say where the code is, and the snapshot says which of them take part.
    """
    named = options.get(_WEIGHERS[0], {}).get(_WEIGHERS[1], ())
    where = {path.rpartition(".")[2]: path for path in paths if not is_class_name(path)}
    own = {each.__name__ for each in WEIGHERS}
    found = [where.get(each, each) if isinstance(each, str) and each not in own else each for each in named]
    return {**options, _WEIGHERS[0]: {**options.get(_WEIGHERS[0], {}), _WEIGHERS[1]: found}} if named else options
