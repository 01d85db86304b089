# SPDX-License-Identifier: Apache-2.0
"""2014: the multiplier has no argument; an option of nova's is copied, with another help text and default."""

from oslo.config import cfg

from nova.scheduler import weights

opts = [
    cfg.FloatOpt("ram_weight_multiplier", default=3.0, help="Copied from somewhere"),
    cfg.FloatOpt("spread_weight_multiplier", default=1.0, help="Multiplier of the number of instances"),
]
CONF = cfg.CONF
CONF.register_opts(opts)


class SpreadWeigher(weights.BaseHostWeigher):
    minval = 0

    def weight_multiplier(self):
        """Override the weight multiplier."""
        return -1.0 * CONF.spread_weight_multiplier * CONF.ram_weight_multiplier

    def _weigh_object(self, host_state, weight_properties):
        assert weight_properties["context"].project_id == "blue"
        assert weight_properties["instance_type"]["memory_mb"] == 1024
        return host_state.num_instances
