# SPDX-License-Identifier: Apache-2.0
"""2025: instances of another host, aggregates by key, nova's errors."""

from nova import context, exception, objects
from nova.scheduler import filters


class CrowdFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        ctxt = context.get_admin_context()
        racks = objects.AggregateList.get_by_metadata_key(ctxt, "rack")
        crowd = 0
        for rack in racks:
            if host_state.host in rack.hosts:
                crowd += sum(len(objects.InstanceList.get_by_host(ctxt, host)) for host in rack.hosts)
        if crowd > 2:
            try:
                raise exception.ComputeHostMetricNotFound(
                    host=host_state.host, node=host_state.nodename, name="crowd"
                )
            except exception.NotFound as e:
                assert "crowd" in e.format_message() and e.kwargs["name"] == "crowd"
                return False
        return True
