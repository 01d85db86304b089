# SPDX-License-Identifier: Apache-2.0
"""The contract of a weigher, in two forms, and what is done with the raw numbers.

    weight = sum over weighers of multiplier x normalise(clamp(raw))

`Weigher` looks at columns; `HostWeigher` at one host at a time, in nova's shape.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.hosts import Hosts, HostTable
from roost.hosts.arrays import Array, FloatArray
from roost.model.request import RequestSpec


def normalise(raw: FloatArray, minval: float | None = None, maxval: float | None = None) -> FloatArray:
    """Spread numbers over 0 to 1 between the bounds, by default their own extremes; all 0 without a spread."""
    if not len(raw):
        return raw
    low = float(raw.min()) if minval is None else float(minval)
    high = float(raw.max()) if maxval is None else float(maxval)
    if low == high:
        return np.zeros(len(raw))
    return (raw - low) / (high - low)


class Weigher:
    """Gives each host in the running a raw number. Changes neither hosts nor request."""

    minval: float | None = None
    """Numbers below count as this, and it is the lower end of the scale."""
    maxval: float | None = None
    """Numbers above count as this, and it is the upper end of the scale."""
    multiplier_option: ClassVar[str] = ""
    """Field of `Options` that holds the multiplier."""
    aggregate_key: ClassVar[str] = ""
    """Aggregate metadata that overrides the multiplier for the hosts in it."""
    column: ClassVar[str] = ""
    """Where the raw number is a numeric column as it stands: its name. There is no more to write then."""
    reads: ClassVar[frozenset[str]] = frozenset()
    """The columns it looks at: while they stay the same, so do its numbers."""
    looks_at_group: ClassVar[bool] = False
    """True where it looks at the request's server group. Counts for built-in rules: of others nothing is kept."""
    looks_at_size: ClassVar[bool] = False
    """True where its numbers depend on how much the request asks for."""
    Options: ClassVar[type | None] = None
    """A frozen dataclass of `option(...)` fields, handed in as `self.options`."""
    name: str
    """What it is called in configuration, decisions and logs: the name of its class, unless that says otherwise."""

    is_built_in: ClassVar[bool] = True
    """Whether Roost ships it, so that what it declares about itself can be relied on; False for plugins."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.is_built_in = cls.__module__.partition(".")[0] == "roost"
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def __init__(self, options: Any = None) -> None:
        self.options = options if options is not None or self.Options is None else self.Options()

    def applies_to(self, spec: RequestSpec) -> bool:
        """Whether this request gives it anything to say; where not, all raw numbers are 0."""
        return True

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """One raw number per host in the running."""
        if not self.column:
            raise NotImplementedError
        return hosts.column(self.column)

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        """The raw number of one host: nova's spelling, for rules that build on this one."""
        if not self.applies_to(weight_properties):
            return 0.0
        return float(self.weigh(host_state.table.one(host_state.row), weight_properties)[0])

    def weight_multiplier(self, host_state: Any) -> float:
        """The multiplier of one host: nova's spelling, for rules that build on this one."""
        return float(np.ravel(self.multipliers(host_state.table.one(host_state.row)))[0])

    def reader(self, table: HostTable, spec: RequestSpec) -> Callable[[int], float]:
        """A function that gives the raw number of one row, inside the bounds: for the few that changed."""
        if self.column:
            return self._column_reader(table.buffers[self.column])
        return lambda row: self.clamped(table.one(row), spec).item()

    def _column_reader(self, buffer: memoryview[float]) -> Callable[[int], float]:
        """`bounded` without a call within a call, for bounds that weighers have."""
        if self.maxval is None and self.minval is not None:
            least = float(self.minval)
            return lambda row: number if (number := buffer[row]) > least else least
        return self.bounded(buffer.__getitem__)

    def bounded(self, number_of: Callable[[int], float]) -> Callable[[int], float]:
        """The same function, its numbers pulled inside the bounds."""
        low, high = self.minval, self.maxval
        if low is None and high is None:
            return number_of
        if high is None:
            least = float(low or 0)
            return lambda row: number if (number := number_of(row)) > least else least
        least, most = -math.inf if low is None else float(low), float(high)
        return lambda row: min(max(number_of(row), least), most)

    def may_fail(self) -> bool:
        """Whether some host can make it raise an error."""
        return False

    def is_off(self, multipliers: Any) -> bool:
        """Whether it need not be asked: its multiplier is 0, and no aggregate sets another."""
        return isinstance(multipliers, float) and not multipliers

    def multiplier(self) -> float:
        """What the configuration multiplies the normalised number with."""
        return float(getattr(self.options, self.multiplier_option)) if self.multiplier_option else 1.0

    def multipliers(self, hosts: Hosts) -> Any:
        """The multiplier of each host - its aggregates may set one - or one number for all."""
        if self.aggregate_key not in hosts.metadata_keys:
            return self.multiplier()
        return hosts.aggregate_min(self.aggregate_key, default=self.multiplier(), cast=float)

    def clamped(self, hosts: Hosts, spec: RequestSpec) -> FloatArray:
        """The raw numbers, pulled inside the bounds."""
        raw = np.asarray(self.weigh(hosts, spec), dtype=np.float64)
        if self.minval is not None:
            raw = np.maximum(raw, self.minval)
        if self.maxval is not None:
            raw = np.minimum(raw, self.maxval)
        return raw


@dataclass
class WeighedHost:
    """A host and its weight, as `weigh_objects` of people's weighers expects them."""

    obj: Any
    weight: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Weight and host name."""
        return {"weight": self.weight, "host": self.obj.host}


class HostWeigher(Weigher):
    """A weigher in nova's shape: override `_weigh_object`, or `weigh_objects` to see all hosts together."""

    def weight_multiplier(self, host_state: Any) -> float:
        """What this host's number is multiplied with. May also be written without the argument."""
        return 1.0

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        """The raw number of one host."""
        raise NotImplementedError

    def weigh_objects(self, weighed_obj_list: Sequence[WeighedHost], weight_properties: Any) -> list[float]:
        """The raw numbers of all hosts, in their order."""
        hosts = [weighed.obj for weighed in weighed_obj_list]
        return [self._bounded(self._number_of(host, self._weigh_object, host, weight_properties)) for host in hosts]

    def _number_of(self, host: Any, give: Callable[..., Any], *arguments: Any) -> float:
        """What is said of one host, as a number; whatever goes wrong names the host."""
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
        """The answers of `weigh_objects`, one number per host or it is an error."""
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
        """`weigh_objects` does its own clamping, so that overriding it overrides that too."""
        return self.weigh(hosts, spec)

    def is_off(self, multipliers: Any) -> bool:
        """Other people's weighers are asked whatever they count for: they may want to raise an error."""
        return False

    def multipliers(self, hosts: Hosts) -> FloatArray:
        """The answers of `weight_multiplier`, in either of its forms."""
        if not inspect.signature(self.weight_multiplier).parameters:
            return np.full(len(hosts), float(self.weight_multiplier()))  # type: ignore[call-arg]
        return np.array([self._number_of(host, self.weight_multiplier, host) for host in hosts])


BaseHostWeigher = HostWeigher
