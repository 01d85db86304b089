# SPDX-License-Identifier: Apache-2.0
"""2020: services and whether they are up."""

from nova import context as nova_context
from nova import objects
from nova import servicegroup
from nova.scheduler import filters


class AliveFilter(filters.BaseHostFilter):
    def __init__(self):
        super(AliveFilter, self).__init__()
        self.servicegroup_api = servicegroup.API()

    def host_passes(self, host_state, spec_obj):
        services = objects.ServiceList.get_by_binary(nova_context.get_admin_context(), "nova-compute")
        here = [each for each in services if each.host == host_state.host]
        assert self.servicegroup_api.service_is_up(here[0]) == self.servicegroup_api.service_is_up(host_state.service)
        return self.servicegroup_api.service_is_up(here[0])
