# SPDX-License-Identifier: Apache-2.0
"""Is the agent on the host in service?"""

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.request import RequestSpec


class ComputeFilter(Filter):
    """Leave out hosts whose compute service is disabled or down.

    Whoever fills the table knows the clock: a service is down when it is forced down, or was last heard of
    more than `service_down_time` seconds ago.
    """

    run_filter_once_per_request = True
    never_fails = True
    reads = frozenset({"is_disabled", "is_up"})

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Enabled and alive."""
        return hosts.is_up & ~hosts.is_disabled

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Disabled (with the operator's words), forced down, or silent."""
        service = host.service
        if service["disabled"]:
            said = service["disabled_reason"]
            return f"the compute service is disabled: {said}" if said else "the compute service is disabled"
        return "the compute service is forced down" if service["forced_down"] else "the compute service is down"
