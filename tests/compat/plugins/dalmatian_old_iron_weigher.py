# SPDX-License-Identifier: Apache-2.0
"""2024: traits; a constructor that forgets its base class; an option among nova's own."""

from oslo_config import cfg
from oslo_log import log as logging

import nova.conf
from nova.scheduler import utils
from nova.scheduler import weights

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF
CONF.register_opts(
    [cfg.FloatOpt("old_iron_weight_multiplier", default=100.0, help="How much old hosts are preferred")],
    group="filter_scheduler",
)


class OldIronWeigher(weights.BaseHostWeigher):
    def __init__(self):
        LOG.info("OldIronWeigher beside CPUs: %s", CONF.filter_scheduler.cpu_weight_multiplier)
        self.trait = "CUSTOM_OLD_IRON"

    def weight_multiplier(self, host_state):
        return utils.get_weight_multiplier(
            host_state, "old_iron_weight_multiplier", CONF.filter_scheduler.old_iron_weight_multiplier
        )

    def _weigh_object(self, host_state, weight_properties):
        return 1.0 if self.trait in host_state.traits else 0.0
