# SPDX-License-Identifier: Apache-2.0
"""Registry of the built-in filters and weighers, and the lookup of third-party plugins.

A new built-in is one line in FILTERS or WEIGHERS. Third-party plugins are found by dotted path (of a class, or of a
function that returns classes) in `available_filters` and `weight_classes`, or by an entry point in the group
`roost.filters` or `roost.weighers`. A dotted path of nova resolves to the built-in of the same class name. Plugins
may import nova: where it is not installed, `roost.plugins.nova_import` provides the modules.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from roost.errors import PluginNotFound, RoostError, nearest, remedy_for
from roost.filters.affinity import DifferentHostFilter, SameHostFilter, SimpleCIDRAffinityFilter
from roost.filters.aggregate_extra_specs import AggregateInstanceExtraSpecsFilter
from roost.filters.aggregate_isolation import AggregateImagePropertiesIsolation, AggregateMultiTenancyIsolation
from roost.filters.all_hosts import AllHostsFilter
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.filters.base import Filter
from roost.filters.compute import ComputeFilter
from roost.filters.compute_capabilities import ComputeCapabilitiesFilter
from roost.filters.core import AggregateCoreFilter, CoreFilter, ExactCoreFilter
from roost.filters.disk import AggregateDiskFilter, DiskFilter, ExactDiskFilter
from roost.filters.image_properties import ImagePropertiesFilter
from roost.filters.io_ops import AggregateIoOpsFilter, IoOpsFilter
from roost.filters.isolated_hosts import IsolatedHostsFilter
from roost.filters.json_query import JsonFilter
from roost.filters.metrics import MetricsFilter
from roost.filters.num_instances import AggregateNumInstancesFilter, NumInstancesFilter
from roost.filters.numa import NUMATopologyFilter
from roost.filters.pci import PciPassthroughFilter
from roost.filters.ram import AggregateRamFilter, ExactRamFilter, RamFilter
from roost.filters.retry import RetryFilter
from roost.filters.server_group import (
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from roost.filters.trusted import TrustedFilter
from roost.filters.type_affinity import AggregateTypeAffinityFilter, TypeAffinityFilter
from roost.plugins.nova_import import adapt_plugin, explain_import_error, importing
from roost.plugins.nova_shapes import resolve_built_in
from roost.weighers.base import Weigher
from roost.weighers.build_failure import BuildFailureWeigher
from roost.weighers.cpu import CPUWeigher
from roost.weighers.cross_cell import CrossCellWeigher
from roost.weighers.disk import DiskWeigher
from roost.weighers.hypervisor_version import HypervisorVersionWeigher
from roost.weighers.image_properties import ImagePropertiesWeigher
from roost.weighers.io_ops import IoOpsWeigher
from roost.weighers.metrics import MetricsWeigher
from roost.weighers.num_instances import NumInstancesWeigher
from roost.weighers.packing import BalanceWeigher, BestFitWeigher, StackWeigher
from roost.weighers.pci import PCIWeigher
from roost.weighers.ram import RAMWeigher
from roost.weighers.server_group import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher

FILTERS: tuple[type[Filter], ...] = (
    AggregateCoreFilter,
    AggregateDiskFilter,
    AggregateImagePropertiesIsolation,
    AggregateInstanceExtraSpecsFilter,
    AggregateIoOpsFilter,
    AggregateMultiTenancyIsolation,
    AggregateNumInstancesFilter,
    AggregateRamFilter,
    AggregateTypeAffinityFilter,
    AllHostsFilter,
    AvailabilityZoneFilter,
    ComputeCapabilitiesFilter,
    ComputeFilter,
    CoreFilter,
    DifferentHostFilter,
    DiskFilter,
    ExactCoreFilter,
    ExactDiskFilter,
    ExactRamFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    ImagePropertiesFilter,
    IoOpsFilter,
    IsolatedHostsFilter,
    JsonFilter,
    MetricsFilter,
    NUMATopologyFilter,
    NumInstancesFilter,
    PciPassthroughFilter,
    RamFilter,
    RetryFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    SimpleCIDRAffinityFilter,
    TrustedFilter,
    TypeAffinityFilter,
)

WEIGHERS: tuple[type[Weigher], ...] = (
    BalanceWeigher,
    BestFitWeigher,
    BuildFailureWeigher,
    CPUWeigher,
    CrossCellWeigher,
    DiskWeigher,
    HypervisorVersionWeigher,
    ImagePropertiesWeigher,
    IoOpsWeigher,
    MetricsWeigher,
    NumInstancesWeigher,
    PCIWeigher,
    RAMWeigher,
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
    StackWeigher,
)

ALL_FILTERS = (
    "roost.filters.all_filters",
    "nova.scheduler.filters.all_filters",
    "nova.scheduler.filters.standard_filters",  # the name in Icehouse
)
ALL_WEIGHERS = ("roost.weighers.all_weighers", "nova.scheduler.weights.all_weighers")
_NOVA_PACKAGES = ("nova.scheduler.filters.", "nova.scheduler.weights.")

Plugin = TypeVar("Plugin", Filter, Weigher)


def places_of(files: Iterable[Path]) -> list[Path]:
    """Folders searched for plugins after Python's path: those of the config files, and the working directory."""
    return list(dict.fromkeys([*(file.resolve().parent for file in files), Path.cwd()]))


def is_class_name(name: str) -> bool:
    """Whether a text names a plugin by its class or entry point: no module is imported for its sake."""
    return "." not in name


def is_built_in_path(path: str) -> bool:
    """Whether a name or dotted path stands for built-ins: no module is imported for its sake."""
    if is_class_name(path) or path in ALL_FILTERS + ALL_WEIGHERS:
        return True
    return path.startswith(_NOVA_PACKAGES) and path.rpartition(".")[2] in {
        each.__name__ for each in (*FILTERS, *WEIGHERS)
    }


def find_filters(available: Iterable[str], enabled: Sequence[str], places: Sequence[Path] = ()) -> list[type[Filter]]:
    """The enabled filter classes, in order, looked up among the available ones by class name.

    `places` are folders that are searched for modules after Python's path. Raises PluginNotFound.
    """
    classes = _by_name(_collect(available, FILTERS, Filter, places))
    if others := set(enabled) - set(classes):
        classes |= _entry_points("roost.filters", Filter, others)
    unknown = [name for name in enabled if name not in classes and "." not in name]
    if unknown:
        hint = nearest(unknown[0], classes)
        raise PluginNotFound(f"enabled_filters: unknown filter {', '.join(unknown)}", hint)
    return [classes[name] if name in classes else _load_class(name, Filter, places) for name in enabled]


def find_weighers(paths: Iterable[str], places: Sequence[Path] = ()) -> list[type[Weigher]]:
    """The weigher classes that these paths name, without duplicates, in order. Raises PluginNotFound."""
    paths, named = list(paths), _by_name(WEIGHERS)
    if others := set(paths) - set(named) - set(ALL_WEIGHERS):
        named |= _entry_points("roost.weighers", Weigher, others)
    found: dict[type[Weigher], None] = {}
    for path in paths:
        if path in named:
            found[named[path]] = None
        elif "." not in path:
            raise PluginNotFound(f"weight_classes: unknown weigher {path}", nearest(path, named))
        else:
            found |= dict.fromkeys(_collect([path], WEIGHERS, Weigher, places))
    return list(found)


def _collect(
    paths: Iterable[str], built_in: tuple[type[Plugin], ...], base: type[Plugin], places: Sequence[Path]
) -> Iterator[type[Plugin]]:
    """All classes that these dotted paths resolve to."""
    for path in paths:
        if path in ALL_FILTERS + ALL_WEIGHERS:
            yield from built_in
        elif path.startswith(_NOVA_PACKAGES) and (own := _by_name(built_in).get(path.rpartition(".")[2])):
            yield own
        else:
            yield from _load(path, base, places)


def _load(path: str, base: type[Plugin], places: Sequence[Path]) -> list[type[Plugin]]:
    """The class at a dotted path, or the classes that the function at it returns. Raises PluginNotFound."""
    found = import_path(path, places)
    classes = _call(path, found) if inspect.isfunction(found) else [found]
    classes = [adapt_plugin(each, base) for each in classes]
    for each in classes:
        if not _is_plugin(each, base):
            kind = base.__name__.lower()
            raise PluginNotFound(f"{path} is not a {kind} class but {each!r}", f"derive it from Host{base.__name__}")
    return [resolve_built_in(each) for each in classes]


def _load_class(path: str, base: type[Plugin], places: Sequence[Path]) -> type[Plugin]:
    classes = _load(path, base, places)
    if len(classes) != 1:
        raise PluginNotFound(f"{path} stands for {len(classes)} classes", "name one of them")
    return classes[0]


def _call(path: str, function: Callable[[], Any]) -> list[Any]:
    try:
        with importing(path.rpartition(".")[0]):
            found = function()
            return list(found) if isinstance(found, Iterable) and not isinstance(found, (str, type)) else [found]
    except RoostError:
        raise
    except Exception as cause:
        raise PluginNotFound(f"{path}() failed: {type(cause).__name__}: {cause}", remedy_for(cause)) from cause


def _is_plugin(candidate: Any, base: type) -> bool:
    return inspect.isclass(candidate) and issubclass(candidate, base) and not candidate.__name__.startswith("_")


def import_path(path: str, places: Sequence[Path]) -> Any:
    """The attribute of a module that a dotted path names. Raises PluginNotFound with the reason."""
    module_name, dot, attribute = path.rpartition(".")
    if not dot:
        raise PluginNotFound(f"{path} is no dotted path", "write package.module.Class")
    with _extended_sys_path(places):
        try:
            with importing(module_name):
                module = importlib.import_module(module_name)
        except Exception as cause:
            raise _cannot_import(path, places, cause) from cause
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise PluginNotFound(f"{path}: {module_name} has no {attribute}", nearest(attribute, vars(module))) from None


def _cannot_import(path: str, places: Sequence[Path], cause: Exception) -> RoostError:
    if isinstance(cause, RoostError):
        return cause
    if error := explain_import_error(path, cause):
        return error
    if isinstance(cause, ModuleNotFoundError):
        hint = f"looked in Python's path and {', '.join(str(place) for place in places) or 'nowhere else'}"
        return PluginNotFound(f"{path}: there is no module {cause.name}", hint)
    return PluginNotFound(f"{path}: importing failed: {type(cause).__name__}: {cause}")


@contextmanager
def _extended_sys_path(places: Sequence[Path]) -> Iterator[None]:
    """Append these folders to sys.path inside the block: installed modules have precedence over theirs."""
    added = [str(place) for place in places if str(place) not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for place in added:
            sys.path.remove(place)


def _entry_points(group: str, base: type[Plugin], wanted: Collection[str]) -> dict[str, type[Plugin]]:
    """Name of an entry point -> its class, for the wanted ones; no other entry point is loaded."""
    found = {}
    for point in importlib.metadata.entry_points(group=group):
        if point.name not in wanted:
            continue
        candidate = adapt_plugin(load_point(point), base)
        if not _is_plugin(candidate, base):
            raise PluginNotFound(f"entry point {point.name} ({point.value}) is no {base.__name__.lower()}")
        found[point.name] = candidate
    return found


def load_point(point: importlib.metadata.EntryPoint) -> Any:
    """The object that an entry point names. Raises PluginNotFound with the reason."""
    try:
        with importing(point.module):
            return point.load()
    except Exception as cause:
        where = f"entry point {point.name} ({point.value})"
        raise explain_import_error(where, cause) or PluginNotFound(f"{where}: {cause}") from cause


def _by_name(classes: Iterable[type[Plugin]]) -> dict[str, type[Plugin]]:
    """Class name -> class; of several classes with one name the last wins."""
    return {each.__name__: each for each in classes}
