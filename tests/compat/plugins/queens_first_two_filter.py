# SPDX-License-Identifier: Apache-2.0
"""2018: a generator over all hosts."""

from nova.scheduler import filters


class FirstTwoFilter(filters.BaseHostFilter):
    def filter_all(self, filter_obj_list, spec_obj):
        passed = 0
        for host_state in sorted(filter_obj_list, key=lambda host: (host.num_instances, host.host)):
            if passed < 2 and self.host_passes(host_state, spec_obj):
                passed += 1
                yield host_state

    def host_passes(self, host_state, spec_obj):
        return host_state.vcpus_total - host_state.vcpus_used >= spec_obj.vcpus
