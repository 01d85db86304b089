# SPDX-License-Identifier: Apache-2.0
"""2015: instances of one type on a host."""

from nova.scheduler import filters
from nova.scheduler.filters import utils


class AlikeFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        instance_type = filter_properties.get("instance_type")
        return not utils.other_types_on_host(host_state, instance_type["id"])
