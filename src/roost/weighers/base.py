# SPDX-License-Identifier: Apache-2.0
"""The contract of a weigher, in two forms.

The weight of a host is a sum over the weighers: multiplier x clamped raw number, min-max normalised among the
remaining hosts. The engines in `roost.scheduler` compute it.

`Weigher` works on columns, like the built-in weighers. `HostWeigher` works on one host at a time, in nova's shape.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.hosts import Hosts, HostTable
from roost.hosts.encoded import Array, FloatArray
from roost.model.request import RequestSpec
from roost.options.declare import NamedByClass


def normalise(raw: FloatArray, minval: float | None = None, maxval: float | None = None) -> FloatArray:
    """Min-max normalisation to 0..1. The bounds default to the extremes of `raw`; all 0 if the bounds are equal.

    For plugins that normalise numbers of their own; the engines compute weights themselves.
    """
    if not len(raw):
        return raw
    low = float(raw.min()) if minval is None else float(minval)
    high = float(raw.max()) if maxval is None else float(maxval)
    if low == high:
        return np.zeros(len(raw))
    return (raw - low) / (high - low)


class Weigher(NamedByClass):
    """Gives each remaining host a raw number. Must change neither hosts nor request."""

    minval: float | None = None
    """Lower bound: smaller raw numbers are raised to it, and it is normalised to 0. None: the smallest number."""
    maxval: float | None = None
    """Upper bound: larger raw numbers are lowered to it, and it is normalised to 1. None: the largest number."""
    multiplier_option: ClassVar[str] = ""
    """The field of `Options` with the multiplier; empty: the multiplier is 1.0."""
    aggregate_key: ClassVar[str] = ""
    """The aggregate metadata key that overrides the multiplier for the hosts in the aggregate; empty: none."""
    column: ClassVar[str] = ""
    """The numeric column that is the raw number, if it is one unchanged: `weigh` need not be overridden then."""
    reads: ClassVar[frozenset[str]] = frozenset()
    """The columns that the numbers depend on: cached numbers are valid while these do not change."""
    looks_at_group: ClassVar[bool] = False
    """True if the numbers depend on the request's server group. For built-in weighers; plugins are not cached."""
    looks_at_size: ClassVar[bool] = False
    """True if the numbers depend on the amounts that the request asks for."""
    applies_if: ClassVar[attrgetter[Any] | None] = None
    """Gives the part of a request without which the weigher has no effect, such as `attrgetter("instance_group")`."""
    is_penalty: ClassVar[bool] = False
    """True where the multiplier is given as a positive number and counts against a host."""
    Options: ClassVar[type | None] = None
    """A frozen dataclass of `option(...)` fields; an instance of it is passed in as `self.options`."""
    is_built_in: ClassVar[bool] = True
    """Whether the class is part of Roost, so that its declarations can be trusted; False for plugins."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.is_built_in = cls.__module__.partition(".")[0] == "roost"

    def __init__(self, options: Any = None) -> None:
        self.options = options if options is not None or self.Options is None else self.Options()

    def applies_to(self, spec: RequestSpec) -> bool:
        """Whether the weigher has an effect on this request; if not, all raw numbers are 0."""
        return self.applies_if is None or bool(self.applies_if(spec))

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """One raw number per remaining host; by default the numbers of `column`."""
        if not self.column:
            raise NotImplementedError
        return hosts.column(self.column)

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        """The raw number of one host: nova's per-host method, for plugins that derive from a built-in weigher."""
        if not self.applies_to(weight_properties):
            return 0.0
        return float(self.weigh(host_state.table.one(host_state.row), weight_properties)[0])

    def weight_multiplier(self, host_state: Any) -> float:
        """The multiplier of one host: nova's per-host method, for plugins that derive from a built-in weigher."""
        return float(np.ravel(self.multipliers(host_state.table.one(host_state.row)))[0])

    def reader(self, table: HostTable, spec: RequestSpec) -> Callable[[int], float]:
        """A function of a row: its raw number, clamped to the bounds. Used to update the few rows that changed."""
        if self.column:
            return self._column_reader(table.buffers[self.column])
        return lambda row: self.clamped(table.one(row), spec).item()

    def _column_reader(self, buffer: memoryview[float]) -> Callable[[int], float]:
        """A function of a row: its number in a column, clamped. Avoids a nested call for the usual bounds."""
        if self.maxval is None and self.minval is not None:
            least = float(self.minval)
            return lambda row: number if (number := buffer[row]) > least else least
        return self.bounded(buffer.__getitem__)

    def bounded(self, number_of: Callable[[int], float]) -> Callable[[int], float]:
        """The function `number_of` with its results clamped to `minval` and `maxval`."""
        low, high = self.minval, self.maxval
        if low is None and high is None:
            return number_of
        if high is None:
            least = float(low or 0)
            return lambda row: number if (number := number_of(row)) > least else least
        least, most = -math.inf if low is None else float(low), float(high)
        return lambda row: min(max(number_of(row), least), most)

    def may_fail(self) -> bool:
        """Whether a host can make it raise an error."""
        return False

    def is_off(self, multipliers: Any) -> bool:
        """Whether it has no effect and need not run: the multiplier is 0, and no aggregate overrides it."""
        return isinstance(multipliers, float) and not multipliers

    def multiplier(self) -> float:
        """The configured multiplier of the normalised number."""
        return float(getattr(self.options, self.multiplier_option)) if self.multiplier_option else 1.0

    def multipliers(self, hosts: Hosts) -> Any:
        """The multiplier per host, if aggregates set one, or else one number for all hosts."""
        found: Any = self.multiplier()
        if self.aggregate_key in hosts.metadata_keys:
            found = hosts.aggregate_min(self.aggregate_key, default=found, cast=float)
        return -1 * found if self.is_penalty else found

    def clamped(self, hosts: Hosts, spec: RequestSpec) -> FloatArray:
        """The raw numbers, clamped to the bounds; one per host."""
        raw = np.asarray(self.weigh(hosts, spec), dtype=np.float64)
        if self.minval is not None:
            raw = np.maximum(raw, self.minval)
        if self.maxval is not None:
            raw = np.minimum(raw, self.maxval)
        return raw


@dataclass
class WeighedHost:
    """A host and its weight, in the form that `weigh_objects` of plugins gets."""

    obj: Any
    weight: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The weight and the host name, as a mapping."""
        return {"weight": self.weight, "host": self.obj.host}


class HostWeigher(Weigher):
    """A weigher in nova's shape: override `_weigh_object`, or `weigh_objects` to see all hosts in one call."""

    def weight_multiplier(self, host_state: Any) -> float:
        """The multiplier of a host. Plugins may also define it without the argument."""
        return 1.0

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        """The raw number of one host; higher is better, with a positive multiplier."""
        raise NotImplementedError

    def weigh_objects(self, weighed_obj_list: Sequence[WeighedHost], weight_properties: Any) -> list[float]:
        """The raw numbers of all hosts, clamped, in the order of the hosts."""
        hosts = [weighed.obj for weighed in weighed_obj_list]
        return [self._bounded(self._number_of(host, self._weigh_object, host, weight_properties)) for host in hosts]

    def _number_of(self, host: Any, give: Callable[..., Any], *arguments: Any) -> float:
        """`give(*arguments)` as a number; any failure is a PluginFailed that names weigher and host."""
        try:
            return float(give(*arguments))
        except RoostError:
            raise
        except Exception as cause:
            raise PluginFailed(self.name, host.host, cause) from cause

    def _bounded(self, number: float) -> float:
        number = number if self.minval is None else max(number, self.minval)
        return number if self.maxval is None else min(number, self.maxval)

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """The result of `weigh_objects` as an array; ValueError if it does not have one number per host."""
        views = list(hosts)
        answer = self.weigh_objects([WeighedHost(host) for host in views], spec)
        if answer is None:
            raise ValueError(
                f"weigh_objects gave None instead of {len(views)} weights; since Icehouse it returns them"
            )
        numbers = list(answer)
        if len(numbers) != len(views):
            raise ValueError(f"{len(numbers)} weights for {len(views)} hosts")
        return np.array([self._number_of(host, float, each) for host, each in zip(views, numbers, strict=True)])

    def clamped(self, hosts: Hosts, spec: RequestSpec) -> FloatArray:
        """The result of `weigh`: `weigh_objects` does the clamping, so a plugin that overrides it can change that."""
        return self.weigh(hosts, spec)

    def is_off(self, multipliers: Any) -> bool:
        """Always False: a plugin runs even with multiplier 0, because it may raise an error."""
        return False

    def multipliers(self, hosts: Hosts) -> FloatArray:
        """The result of `weight_multiplier` per host, whether it takes the host as an argument or not."""
        if not inspect.signature(self.weight_multiplier).parameters:
            return np.full(len(hosts), float(self.weight_multiplier()))  # type: ignore[call-arg]
        return np.array([self._number_of(host, self.weight_multiplier, host) for host in hosts])


BaseHostWeigher = HostWeigher
