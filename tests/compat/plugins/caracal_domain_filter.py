# SPDX-License-Identifier: Apache-2.0
"""2024: a server group is spread over failure domains, which other hosts' aggregates name."""

from nova import context as nova_context
from nova import objects
from nova.scheduler import filters


class DomainFilter(filters.BaseHostFilter):
    RUN_ON_REBUILD = False

    def host_passes(self, host_state, spec_obj):
        if not spec_obj.instance_group:
            return True
        context = nova_context.get_admin_context()
        group = objects.InstanceGroup.get_by_uuid(context, spec_obj.instance_group.uuid)
        taken = set()
        for host in group.hosts:
            for aggregate in objects.AggregateList.get_by_host(context, host):
                taken.add(aggregate.metadata.get("rack"))
        own = {aggregate.metadata.get("rack") for aggregate in host_state.aggregates}
        return taken.isdisjoint(own)
