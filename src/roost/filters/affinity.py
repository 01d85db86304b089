# SPDX-License-Identifier: Apache-2.0
"""Filters by scheduler hints that name instances or an address to be near to, or away from."""

from __future__ import annotations

import ipaddress
from typing import Any

import numpy as np

from roost.errors import HostFault, RuleError
from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import name_of
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec


def hinted_instances(spec: RequestSpec, hint: str) -> list[str]:
    """The instance uuids under a hint, a single one as a list of one; empty if the request has no such hint."""
    value = spec.get_scheduler_hint(hint)
    if not value:
        return []
    return [value] if isinstance(value, str) else list(value)


class DifferentHostFilter(Filter):
    """Leave out hosts that run any of the instances in the hint `different_host`."""

    run_filter_once_per_request = True
    reads = frozenset({"instances"})

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the hint names instances."""
        return bool(hinted_instances(spec, "different_host"))

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts that run none of the instances in the hint."""
        mask: BoolArray = hosts.count_instances(hinted_instances(spec, "different_host")) == 0
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Names the instances of the hint that the host runs."""
        there = [uuid for uuid in hinted_instances(spec, "different_host") if uuid in host.instances]
        return f"another host than that of {', '.join(there)} asked; it runs here"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A hint without the instances that the host runs."""
        named = hinted_instances(spec, "different_host")
        here = [uuid for uuid in named if uuid in host.instances]
        left = [uuid for uuid in named if uuid not in here]
        text = f"take {', '.join(here)} out of the hint different_host, or move it off {name_of(host)}"
        return Remedy(text, (RequestChange("scheduler_hints.different_host", left or None),))


class SameHostFilter(Filter):
    """Keep only hosts that run at least one of the instances in the hint `same_host`."""

    run_filter_once_per_request = True
    reads = frozenset({"instances"})

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the hint names instances."""
        return bool(hinted_instances(spec, "same_host"))

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts that run at least one of the instances in the hint."""
        wanted = hinted_instances(spec, "same_host")
        return (hosts.count_instances(wanted) > 0) if wanted else np.ones(len(hosts), dtype=np.bool_)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Names the instances of the hint, none of which the host runs."""
        wanted = ", ".join(hinted_instances(spec, "same_host"))
        return f"the host of {wanted} asked; it does not run here"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A request without the hint, or with an instance of the host in it."""
        there = next(iter(host.instances), None)
        other = f", or name an instance of {name_of(host)} in it, such as {there}" if there else ""
        return Remedy(f"leave out the hint same_host{other}", (RequestChange("scheduler_hints.same_host", None),))


class SimpleCIDRAffinityFilter(Filter):
    """Keep only hosts whose IP address is in the network of the hints `build_near_host_ip` and `cidr`.

    The values are concatenated: `10.1.2.3` and `/24` give `10.1.2.3/24`. The default of `cidr` is `/24`.
    """

    run_filter_once_per_request = True
    reads = frozenset({"host_ip"})

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the hint `build_near_host_ip` is set."""
        return bool(spec.get_scheduler_hint("build_near_host_ip"))

    def network(self, spec: RequestSpec) -> Any:
        """The requested network; RuleError if the hints do not form one."""
        near, cidr = spec.get_scheduler_hint("build_near_host_ip"), spec.get_scheduler_hint("cidr", "/24")
        if not isinstance(near, str) or not isinstance(cidr, str):
            raise RuleError(self.name, "build_near_host_ip and cidr take one value each", "TypeError")
        try:
            return ipaddress.ip_network(near + cidr, strict=False)
        except ValueError:
            problem = f"{near + cidr!r} is no network"
            raise RuleError(self.name, problem, "AddrFormatError", "write an address, and a cidr like /24") from None

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts whose address is in the requested network; HostFault for a host without a valid address."""
        if not self.applies_to(spec):
            return np.ones(len(hosts), dtype=np.bool_)
        network = self.network(spec)
        return hosts.per_value("host_ip", lambda address: self._address(address) in network)

    def _address(self, address: str | None) -> Any:
        try:
            return ipaddress.ip_address(address or "")
        except ValueError:
            raise HostFault(self.name, f"{address!r} is no host address", "AddrFormatError") from None

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The host's address, and the requested network."""
        return f"an address in {self.network(spec)} asked; the host has {host.host_ip}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """The address of the host in the hint."""
        text = f"set the hint build_near_host_ip to {host.host_ip}, or ask for a wider network with the hint cidr"
        return Remedy(text, (RequestChange("scheduler_hints.build_near_host_ip", [host.host_ip]),))
