# SPDX-License-Identifier: Apache-2.0
"""2019: the multiplier of a host may come from its aggregates."""

from oslo_config import cfg

import nova.conf
from nova.scheduler import utils
from nova.scheduler import weights

CONF = nova.conf.CONF
CONF.register_opt(cfg.FloatOpt("tier_weight_multiplier", default=1.0), group="tiers")


class TierWeigher(weights.BaseHostWeigher):
    minval, maxval = 0, 10

    def weight_multiplier(self, host_state):
        return utils.get_weight_multiplier(host_state, "tier_weight_multiplier", CONF.tiers.tier_weight_multiplier)

    def _weigh_object(self, host_state, weight_properties):
        return 10 if weight_properties.flavor.extra_specs.get("tier") else 0
