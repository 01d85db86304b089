# SPDX-License-Identifier: Apache-2.0
"""2021: keeps away from hosts with young instances, and from those that run Windows."""

from oslo_utils import timeutils

from nova.scheduler import filters


class YoungFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        for instance in host_state.instances.values():
            if not timeutils.is_older_than(instance.created_at, 3600):
                return False
            if instance.system_metadata.get("image_os_type") == "windows":
                return False
        return True
