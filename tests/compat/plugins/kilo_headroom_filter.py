# SPDX-License-Identifier: Apache-2.0
"""2015: oslo_log and oslo_config, helpers of nova.scheduler.filters.utils, marked log texts."""

from oslo_config import cfg
from oslo_log import log as logging

from nova.i18n import _LW
from nova.scheduler import filters
from nova.scheduler.filters import utils

LOG = logging.getLogger(__name__)

headroom_opts = [cfg.IntOpt("ram_headroom_mb", default=512, help="Memory to keep free on every host")]
CONF = cfg.CONF
CONF.register_opts(headroom_opts, group="headroom")


class HeadroomFilter(filters.BaseHostFilter):
    def _get_headroom(self, host_state):
        values = utils.aggregate_values_from_key(host_state, "ram_headroom_mb")
        try:
            return utils.validate_num_values(values, CONF.headroom.ram_headroom_mb, cast_to=int)
        except ValueError as e:
            LOG.warning(_LW("Could not decode ram_headroom_mb: '%s'"), e)
            return CONF.headroom.ram_headroom_mb

    def host_passes(self, host_state, filter_properties):
        instance_type = filter_properties.get("instance_type")
        left = host_state.free_ram_mb - instance_type["memory_mb"]
        return left >= self._get_headroom(host_state)
