# SPDX-License-Identifier: Apache-2.0
"""The modules of nova that plugins import, as a table of names, and the few functions that only they need.

Only the import hook reads NOVA_MODULES, once a plugin imports nova: programs without such plugins never load this
module and its libraries.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from typing import Any

import numpy as np
from oslo_config import cfg

from roost.errors import RuleError
from roost.filters import extra_specs_ops
from roost.hosts.view import HostView
from roost.model.flavor import Flavor
from roost.model.group import merged_metadata, raw_values, smallest_value
from roost.model.request import RequestSpec
from roost.plugins import nova_objects, nova_shapes
from roost.plugins.context import AggregateObject, current_context
from roost.plugins.nova_objects import AggregateList
from roost.plugins.nova_shapes import BaseHostFilter, BaseHostWeigher, RequestContext, original_request
from roost.weighers.base import WeighedHost, normalise

LOG = logging.getLogger("nova.scheduler.utils")

_ALL_WEIGHERS = ("nova.scheduler.weights.all_weighers", "roost.weighers.all_weighers")


def _(text: str) -> str:
    return text


_OF_RECORDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""Attributes of every log record, which no keyword may replace."""


class ContextAdapter(logging.LoggerAdapter[logging.Logger]):
    """A logger that accepts `context=`, `instance=` and any other keyword of a plugin."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """The message, and its keywords: those that logging does not know are attributes of the record."""
        known = {name: kwargs[name] for name in ("exc_info", "stack_info", "stacklevel") if name in kwargs}
        own = {name: value for name, value in kwargs.items() if name not in known and name not in _OF_RECORDS}
        return msg, {**known, "extra": {**(own.pop("extra", None) or {}), **own}}

    def audit(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Log at nova's level for operators; here at INFO."""
        self.log(logging.INFO, msg, *args, **kwargs)

    def warn(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """Log a warning; the old name of `warning`."""
        self.log(logging.WARNING, msg, *args, **kwargs)


def getLogger(name: str = "unknown", version: str = "unknown") -> ContextAdapter:  # noqa: N802 - nova's name
    """The logger with this name, of releases up to Juno: with nova's additional level `audit`."""
    return ContextAdapter(logging.getLogger(name), {})


def get_admin_context(read_deleted: str = "no") -> RequestContext:
    """A context with administrator rights."""
    return RequestContext(is_admin=True, read_deleted=read_deleted)


def get_context() -> RequestContext:
    """A context without user and project."""
    return RequestContext()


class API:
    """Service state from the scheduler's replica of the fleet, independent of the configured driver."""

    def __init__(self, *unused: Any, **also_unused: Any) -> None:
        pass

    def service_is_up(self, service: Any) -> bool:
        """Whether a service is up. `service`: `host_state.service`, or an element of `ServiceList`."""
        return bool(service["up"])


def register_all() -> None:
    """Do nothing: there are no objects to register."""


def get_host_availability_zone(context: Any, host: str, *unused: Any) -> str:
    """The availability zone that one of the host's aggregates defines, or else the default zone."""
    zones = [each.availability_zone for each in current_context().fleet.aggregates_of(host)]
    return str(next((each for each in zones if each), cfg.CONF.default_availability_zone))


def aggregate_get_by_host(context: Any, host: str, key: str | None = None) -> list[AggregateObject]:
    """The aggregates of a host; with `key`, only aggregates that define this metadata key."""
    return AggregateList.get_by_host(context, host, key)


def db_aggregate_metadata_get_by_host(context: Any, host: str, key: str | None = None) -> dict[str, set[str]]:
    """Metadata key -> set of values, not split, over the host's aggregates; an empty set for any other key.

    With `key`, only this key is in the result.
    """
    merged: dict[str, set[str]] = defaultdict(set)
    for aggregate in aggregate_get_by_host(context, host, key):
        for name, value in aggregate.metadata.items():
            if key is None or name == key:
                merged[name].add(value)
    return merged


def aggregate_metadata_get_by_host(host_state: Any, key: str | None = None) -> dict[str, set[str]]:
    """Metadata key -> set of values, split at commas; an empty set for any other key.

    With `key`, only aggregates that define it are merged.
    """
    return defaultdict(set, merged_metadata(host_state.aggregates, key))


def aggregate_values_from_key(host_state: Any, key_name: str) -> set[str]:
    """The metadata texts under a key, not split, of the host's aggregates."""
    return raw_values(host_state.aggregates, key_name)


def aggregate_values_from_db(context: Any, host: str, key_name: str) -> set[str]:
    """The metadata texts under a key, not split, of the aggregates of a host, which is given by name (Juno)."""
    return raw_values(current_context().fleet.aggregates_of(host), key_name)


def validate_num_values(
    vals: Collection[Any],
    default: Any = None,
    cast_to: Callable[[Any], Any] = int,
    based_on: Callable[[Iterable[Any]], Any] = min,
) -> Any:
    """One number out of several texts: `based_on` of them, by default the smallest; the default if there are none."""
    return based_on([cast_to(each) for each in vals]) if vals else default


def instance_uuids_overlap(host_state: Any, uuids: str | Iterable[str]) -> bool:
    """Whether at least one of the instances is on the host."""
    wanted = [uuids] if isinstance(uuids, str) else uuids
    return any(each in host_state.instances for each in wanted)


def other_types_on_host(host_state: Any, instance_type_id: Any) -> bool:
    """Whether an instance on the host has a flavor with another id (Kilo)."""
    return any(each.instance_type_id != instance_type_id for each in host_state.instances.values())


def match(value: Any, req: str) -> bool:
    """Whether a value satisfies a requirement; IndexError or ValueError, as in nova, if it cannot be compared."""
    try:
        return extra_specs_ops.match(value, req)
    except RuleError as error:
        raise {"IndexError": IndexError}.get(error.nova_type, ValueError)(error.message) from None


def all_filters() -> list[type[BaseHostFilter]]:
    """Every built-in filter, in nova's shape."""
    return list(nova_shapes.filters().values())


def all_weighers() -> list[type[BaseHostWeigher]]:
    """Every built-in weigher, in nova's shape."""
    return list(nova_shapes.weighers().values())


def normalize(weight_list: Iterable[float], minval: float | None = None, maxval: float | None = None) -> list[float]:
    """The numbers, min-max normalised to 0..1. Bounds default to their extremes; all 0.0 if bounds are equal."""
    numbers: list[float] = normalise(np.array(list(weight_list), dtype=np.float64), minval, maxval).tolist()
    return numbers


def get_weight_multiplier(host_state: Any, multiplier_name: str, multiplier_config: float) -> float:
    """The smallest multiplier that the host's aggregates set, or else the configured one."""
    number = smallest_value(host_state.aggregates, multiplier_name, float)
    if number is None and raw_values(host_state.aggregates, multiplier_name):
        LOG.warning("%s of an aggregate of %s is no number", multiplier_name, host_state.host)
    return multiplier_config if number is None else number


def parse_options(
    opts: Iterable[str], sep: str = "=", converter: Callable[[str], Any] = str, name: str = ""
) -> list[tuple[str, Any]]:
    """(name, converted value) of each element. Invalid elements are left out, with one warning for all."""
    good, bad = [], []
    for each in opts:
        key, found, value = each.partition(sep)
        try:
            if not (key and found):
                raise ValueError(each)
            good.append((key, converter(value)))
        except ValueError:
            bad.append(each)
    if bad:
        LOG.warning("ignored in the options %s: %s", name, ", ".join(bad))
    return good


def request_is_rebuild(spec_obj: Any) -> bool:
    """Whether the request only checks that an instance may stay on its host with another image."""
    return bool(original_request(spec_obj).is_rebuild)


def validate_filter(name: str) -> bool:
    """Whether a filter of this name is enabled."""
    return name in cfg.CONF.filter_scheduler.enabled_filters


def validate_weigher(path: str) -> bool:
    """Whether the weigher at this path is used."""
    used = cfg.CONF.filter_scheduler.weight_classes
    return path in used or not set(_ALL_WEIGHERS).isdisjoint(used)


def _by_name(*named: Any) -> dict[str, object]:
    return {each.__name__: each for each in named}


def _of_objects(names: str) -> dict[str, object]:
    return {name: getattr(nova_objects, name) for name in names.split()}


_TEXTS = {"_": _, "_LI": _, "_LW": _, "_LE": _, "_LC": _}
_DATABASE = {
    "aggregate_get_by_host": aggregate_get_by_host,
    "aggregate_metadata_get_by_host": db_aggregate_metadata_get_by_host,
}

NOVA_MODULES: Mapping[str, Mapping[str, object]] = {
    "nova": {},
    "nova.availability_zones": _by_name(get_host_availability_zone),
    "nova.conf": {"CONF": cfg.CONF},
    "nova.context": _by_name(RequestContext, get_admin_context, get_context),
    "nova.db": _DATABASE,
    "nova.db.api": _DATABASE,
    "nova.exception": _of_objects(
        "AggregateNotFound ComputeHostMetricNotFound ComputeHostNotFound HostNotFound InstanceGroupNotFound "
        "InstanceNotFound Invalid NoValidHost NotFound NovaException ServiceNotFound"
    ),
    "nova.i18n": _TEXTS,
    "nova.objects": {
        **_of_objects("Aggregate AggregateList ImageMeta ImageMetaProps Instance InstanceGroup InstanceList"),
        **_of_objects("Service ServiceList"),
        **_by_name(Flavor, RequestSpec, register_all),
    },
    "nova.objects.aggregate": _of_objects("Aggregate AggregateList"),
    "nova.objects.flavor": _by_name(Flavor),
    "nova.objects.image_meta": _of_objects("ImageMeta ImageMetaProps"),
    "nova.objects.instance": _of_objects("Instance InstanceList"),
    "nova.objects.instance_group": _of_objects("InstanceGroup"),
    "nova.objects.request_spec": _by_name(RequestSpec),
    "nova.objects.service": _of_objects("Service ServiceList"),
    "nova.openstack": {},
    "nova.openstack.common": {},
    "nova.openstack.common.gettextutils": _TEXTS,
    "nova.openstack.common.log": _by_name(ContextAdapter, getLogger),
    "nova.scheduler": {},
    "nova.scheduler.filters": _by_name(BaseHostFilter, all_filters),
    "nova.scheduler.filters.extra_specs_ops": _by_name(match),
    "nova.scheduler.filters.utils": _by_name(
        aggregate_metadata_get_by_host,
        aggregate_values_from_db,
        aggregate_values_from_key,
        instance_uuids_overlap,
        other_types_on_host,
        validate_num_values,
    ),
    "nova.scheduler.host_manager": {"HostState": HostView},
    "nova.scheduler.utils": {
        "LOG": LOG,
        **_by_name(get_weight_multiplier, parse_options, request_is_rebuild, validate_filter, validate_weigher),
    },
    "nova.scheduler.weights": _by_name(BaseHostWeigher, WeighedHost, all_weighers),
    "nova.servicegroup": _by_name(API),
    "nova.weights": {"BaseWeigher": BaseHostWeigher, "WeighedObject": WeighedHost, "normalize": normalize},
}
"""Module of nova -> names in it. The modules of its built-in filters and weighers are in `nova_shapes.MODULES`."""
