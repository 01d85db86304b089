# SPDX-License-Identifier: Apache-2.0
"""2022: counts the GPUs that running instances take, by the extra specs of their flavors."""

from nova.scheduler import filters


class GpuFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        wanted = int(spec_obj.flavor.extra_specs.get("acme:gpus", 0))
        there = sum(int(agg.metadata.get("gpus", 0)) for agg in host_state.aggregates)
        taken = sum(int(inst.flavor.extra_specs.get("acme:gpus", 0)) for inst in host_state.instances.values())
        return taken + wanted <= there
