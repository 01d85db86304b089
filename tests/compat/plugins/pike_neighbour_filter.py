# SPDX-License-Identifier: Apache-2.0
"""2017: who else is on the host."""

from oslo_log import log as logging

from nova.scheduler import filters
from nova.scheduler.filters import utils

LOG = logging.getLogger(__name__)


class NeighbourFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        near = spec_obj.get_scheduler_hint("near")
        if near and not utils.instance_uuids_overlap(host_state, near):
            return False
        strangers = [inst for uuid, inst in host_state.instances.items() if inst.project_id != spec_obj.project_id]
        for inst in strangers:
            LOG.debug("%s (image %s) on %s", inst.uuid, inst.image_ref, inst.host, instance=inst)
            if inst.flavor.memory_mb >= 4096:
                return False
        return True
