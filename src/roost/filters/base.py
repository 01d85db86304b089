# SPDX-License-Identifier: Apache-2.0
"""The contract of a filter, in two forms.

`Filter` looks at columns: all hosts in the running at once. The built-ins are written this way.
`HostFilter` looks at one host at a time, in nova's shape. People's own filters are mostly written this way.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import Array, BoolArray
from roost.model.request import RequestSpec


class Filter:
    """Says of each host in the running whether it stays. Changes neither hosts nor request."""

    run_filter_once_per_request: ClassVar[bool] = False
    """True where the answer cannot change between the instances of one request."""
    runs_on_rebuild: ClassVar[bool] = False
    """True where the rule also applies to an instance that gets a new image where it is."""
    reads: ClassVar[frozenset[str]] = frozenset()
    """The columns it looks at: while they stay the same, so does its answer."""
    never_fails: ClassVar[bool] = False
    """True where no host can make it raise: it may then be asked about hosts that are out already."""
    looks_at_group: ClassVar[bool] = False
    """True where it looks at the request's server group. Counts for built-in rules: of others nothing is kept."""
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

    def run_filter_for_index(self, index: int) -> bool:
        """Whether to ask it for the instance of this number (from 0) of a request."""
        return index == 0 or not self.run_filter_once_per_request

    def applies_to(self, spec: RequestSpec) -> bool:
        """Whether this request gives it anything to do; where not, every host passes unasked."""
        return True

    def reads_for(self, spec: RequestSpec) -> frozenset[str]:
        """The columns that it looks at for this request, where that is less than `reads`."""
        return self.reads

    def distinguishes(self, spec: RequestSpec) -> Hashable:
        """What it looks at in a request besides extra specs, image properties, zone, hints, group and named hosts.

        Requests that are alike in all of that share their answers. Counts for built-in filters: of others nothing is
        kept.
        """
        return None

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """One truth value per host in the running: True stays."""
        raise NotImplementedError

    def answers(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """What the pipeline asks for: the mask, and whatever is wrong with it as an error that names the filter."""
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
        """Whether this one host may take the request: nova's spelling, for rules that build on this one."""
        if not self.applies_to(spec_obj):
            return True
        return bool(self.mask(host_state.table.one(host_state.row), spec_obj)[0])

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Why a rejected host was rejected: the number it saw and the number it wanted."""
        raise NotImplementedError

    def ceilings(self, hosts: Hosts, spec: RequestSpec) -> Mapping[str, Array]:
        """Overcommit limits that travel with a selection, by nova's name, one number per host."""
        return {}


class HostFilter(Filter):
    """A filter in nova's shape: override `host_passes`, or `filter_all` to see all hosts together.

    `_filter_one` stands between the two, in nova too: some call it, and some override it instead of `host_passes`.
    """

    RUN_ON_REBUILD: ClassVar[bool] = False

    def host_passes(self, host_state: Any, spec_obj: Any) -> Any:
        """Whether this host may take the request."""
        raise NotImplementedError

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterable[Any] | None:
        """The hosts that may take the request, in their order."""
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
        """The answers of `filter_all`, as a mask; None from it means that nobody is left."""
        views = list(hosts)
        passed = self.filter_all(list(views), spec)  # a copy: some take out of it what does not pass
        staying = {id(host) for host in passed} if passed is not None else set()
        return np.fromiter((id(host) in staying for host in views), dtype=np.bool_, count=len(views))

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """People's own filters answer yes or no; they may override this to say more."""
        return f"{self.name} said no"


BaseHostFilter = HostFilter


def applies_to_rebuild(rule: Filter) -> bool:
    """Whether the filter asks for rebuilds to go through it, in either spelling."""
    return rule.runs_on_rebuild or getattr(rule, "RUN_ON_REBUILD", False)
