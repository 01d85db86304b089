# SPDX-License-Identifier: Apache-2.0
"""2019: derived from built-ins, by the paths that they have in nova."""

from nova.scheduler.filters import compute_filter
from nova.scheduler.filters.ram_filter import RamFilter


class CarefulRamFilter(RamFilter):
    def host_passes(self, host_state, spec_obj):
        if not super(CarefulRamFilter, self).host_passes(host_state, spec_obj):
            return False
        return host_state.num_instances < 2


class PatientComputeFilter(compute_filter.ComputeFilter):
    RUN_ON_REBUILD = True

    def host_passes(self, host_state, filter_properties):
        passes = super(PatientComputeFilter, self).host_passes(host_state, filter_properties)
        return passes or host_state.service["disabled_reason"] == "soon back"
