# SPDX-License-Identifier: Apache-2.0
"""2025: a function that gives nova's filters and a few more; one for each style of matching."""

from nova.scheduler import filters
from nova.scheduler.filters import extra_specs_ops


class CpuModelFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        wanted = spec_obj.flavor.extra_specs.get("cpu_model")
        return wanted is None or extra_specs_ops.match(host_state.stats.get("cpu_model"), wanted)


def every_filter():
    return filters.all_filters() + [CpuModelFilter]
