# SPDX-License-Identifier: Apache-2.0
"""2014: values of aggregates by the name of the host."""

from nova.scheduler import filters
from nova.scheduler.filters import utils


class PowerFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        context = filter_properties["context"].elevated()
        values = utils.aggregate_values_from_db(context, host_state.host, "rack")
        return filter_properties["scheduler_hints"].get("rack") in values
