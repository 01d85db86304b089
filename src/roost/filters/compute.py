# SPDX-License-Identifier: Apache-2.0
"""The filter for hosts whose compute service is up and enabled."""

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import change_service, enable
from roost.model.remedy import Remedy
from roost.model.request import RequestSpec


class ComputeFilter(Filter):
    """Leave out hosts whose compute service is disabled or down.

    A service is down if it is forced down, or if its latest heartbeat is more than `service_down_time` seconds old.
    """

    run_filter_once_per_request = True
    never_fails = True
    reads = frozenset({"is_disabled", "is_up"})

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts whose service is up and not disabled."""
        return hosts.is_up & ~hosts.is_disabled

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Whether the service is disabled (with the operator's reason), forced down, or down."""
        service = host.service
        if service["disabled"]:
            said = service["disabled_reason"]
            return f"the compute service is disabled: {said}" if said else "the compute service is disabled"
        return "the compute service is forced down" if service["forced_down"] else "the compute service is down"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """The service enabled, and up."""
        found = [enable(host)] if host.is_disabled else []
        if not host.is_up:
            action = "no longer force down" if host.service["forced_down"] else "start"
            changes = change_service(host, forced_down=False, up=True)
            found.append(Remedy(f"{action} the compute service of {host.host}", changes))
        return Remedy(" and ".join(each.text for each in found), tuple(c for each in found for c in each.changes))
