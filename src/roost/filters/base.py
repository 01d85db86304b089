# SPDX-License-Identifier: Apache-2.0
"""The contract of a filter, in two forms.

`Filter` works on columns, with one call for all remaining hosts. The built-in filters are written this way.
`HostFilter` works on one host at a time, in nova's shape. Most plugins are written this way.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import Array, BoolArray
from roost.model.remedy import Remedy
from roost.model.request import RequestSpec
from roost.options.declare import NamedByClass


class Filter(NamedByClass):
    """Decides for each remaining host whether it stays. Must change neither hosts nor request."""

    run_filter_once_per_request: ClassVar[bool] = False
    """True if the answer cannot change between the instances of one request: it then runs for the first only."""
    runs_on_rebuild: ClassVar[bool] = False
    """True if the filter also applies to a rebuild, which gives an instance a new image on its host."""
    reads: ClassVar[frozenset[str]] = frozenset()
    """The columns that the answer depends on: cached answers are valid while these do not change."""
    never_fails: ClassVar[bool] = False
    """True if no host can make it raise an error: it may then be evaluated for hosts that were rejected already."""
    looks_at_group: ClassVar[bool] = False
    """True if the answer depends on the request's server group. For built-in filters; plugins are not cached."""
    applies_if: ClassVar[attrgetter[Any] | None] = None
    """Gives the part of a request without which there is nothing to check, such as `attrgetter("pci_requests")`.

    For built-in filters; plugins say so in `applies_to`.
    """
    sets_limits: ClassVar[bool] = False
    """Whether the class overrides `ceilings`."""
    Options: ClassVar[type | None] = None
    """A frozen dataclass of `option(...)` fields; an instance of it is passed in as `self.options`."""
    is_built_in: ClassVar[bool] = True
    """Whether the class is part of Roost, so that its declarations can be trusted; False for plugins."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.is_built_in = cls.__module__.partition(".")[0] == "roost"
        cls.sets_limits = cls.ceilings is not Filter.ceilings

    def __init__(self, options: Any = None) -> None:
        self.options = options if options is not None or self.Options is None else self.Options()

    def run_filter_for_index(self, index: int) -> bool:
        """Whether it runs for the instance with this index (from 0) of a request."""
        return index == 0 or not self.run_filter_once_per_request

    def applies_to(self, spec: RequestSpec) -> bool:
        """Whether there is anything to check for this request; if not, all hosts pass and `mask` is not called."""
        return self.applies_if is None or bool(self.applies_if(spec))

    def reads_for(self, spec: RequestSpec) -> frozenset[str]:
        """The columns that the answer to this request depends on: `reads`, or a part of it."""
        return self.reads

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """The parts of the request that the answer depends on, as a hashable value.

        Extra specs, image properties, zone, hints, group and named hosts need not be included: requests are compared
        by them anyway. Requests that are equal in all of that share one cached answer. For built-in filters; plugins
        are not cached.
        """
        return None

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """One boolean per remaining host: True if it stays."""
        raise NotImplementedError

    def answers(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """The checked mask, for the pipeline: any failure or wrong length is a PluginFailed that names the filter."""
        try:
            mask = np.asarray(self.mask(hosts, spec), dtype=np.bool_)
        except RoostError:
            raise
        except Exception as cause:
            raise PluginFailed(self.name, "", cause) from cause
        if mask.shape != (len(hosts),):
            raise PluginFailed(self.name, "", ValueError(f"{mask.size} answers for {len(hosts)} hosts"))
        return mask

    def host_passes(self, host_state: Any, spec_obj: Any) -> Any:
        """Whether one host passes: nova's per-host method, for plugins that derive from a built-in filter."""
        if not self.applies_to(spec_obj):
            return True
        return bool(self.mask(host_state.table.one(host_state.row), spec_obj)[0])

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Why a host was rejected, as one sentence with the requested and the found value."""
        raise NotImplementedError

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """One change with which the rejected host would pass; None where nothing sensible would let it pass."""
        return None

    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> Mapping[str, Array]:
        """Overcommit limits that are sent to the host with the request: nova's name -> one number per host.

        NaN: no limit for that host.
        """
        return {}


class HostFilter(Filter):
    """A filter in nova's shape: override `host_passes`, or `filter_all` to see all hosts in one call.

    `filter_all` calls `_filter_one`, which calls `host_passes`, as in nova: some plugins call or override it.
    """

    RUN_ON_REBUILD: ClassVar[bool] = False

    def host_passes(self, host_state: Any, spec_obj: Any) -> Any:
        """Whether the host may take the request; the result is used as a boolean."""
        raise NotImplementedError

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterable[Any] | None:
        """The hosts that may take the request, in their order; None means none of them."""
        return (host for host in filter_obj_list if self._passes(host, spec_obj))

    def _filter_one(self, obj: Any, spec_obj: Any) -> Any:
        return self.host_passes(obj, spec_obj)

    def _passes(self, host: Any, spec: Any) -> bool:
        try:
            return bool(self._filter_one(host, spec))
        except RoostError:
            raise
        except Exception as cause:
            raise PluginFailed(self.name, host.host, cause) from cause

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """The result of `filter_all` as a mask; None from it means that no host is left."""
        views = list(hosts)
        passed = self.filter_all(list(views), spec)  # a copy: some plugins remove hosts from the list
        staying = {id(host) for host in passed} if passed is not None else set()
        return np.fromiter((id(host) in staying for host in views), dtype=np.bool_, count=len(views))

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """A sentence without details; plugins may override it to give the values they compared."""
        return f"{self.name} said no"


BaseHostFilter = HostFilter


def applies_to_rebuild(rule: Filter) -> bool:
    """Whether the filter applies to rebuilds: `runs_on_rebuild`, or nova's `RUN_ON_REBUILD`."""
    return rule.runs_on_rebuild or getattr(rule, "RUN_ON_REBUILD", False)
