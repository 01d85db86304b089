# SPDX-License-Identifier: Apache-2.0
"""2018: nova is imported when the filter runs."""

from nova.scheduler import filters


class LazyFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        from nova import context
        from nova import objects

        ctxt = context.get_admin_context()
        assert ctxt.is_admin and ctxt.elevated().is_admin
        found = objects.AggregateList.get_by_host(ctxt, host_state.host, key="rack")
        return any(agg.metadata["rack"] == "r1" and host_state.host in agg.hosts for agg in found)
