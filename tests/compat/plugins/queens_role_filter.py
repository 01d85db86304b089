# SPDX-License-Identifier: Apache-2.0
"""2018: hosts for callers with a role."""

from nova.scheduler import filters
from nova.scheduler.filters import utils


class RoleFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        needed = utils.aggregate_values_from_key(host_state, "role")
        return needed <= set(spec_obj._context.roles)
