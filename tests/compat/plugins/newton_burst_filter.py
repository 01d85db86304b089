# SPDX-License-Identifier: Apache-2.0
"""2016: nova.conf, a group of its own, nova's options by their groups."""

from oslo_config import cfg

import nova.conf
from nova.scheduler import filters

burst_group = cfg.OptGroup(name="burst", title="Hosts for bursts")
burst_opts = [
    cfg.ListOpt("hosts", default=[], help="Hosts that take bursts"),
    cfg.BoolOpt("enabled", default=False),
]
CONF = nova.conf.CONF
CONF.register_group(burst_group)
CONF.register_opts(burst_opts, group=burst_group)


class BurstFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        assert CONF is cfg.CONF
        assert CONF.filter_scheduler.host_subset_size == CONF.scheduler_host_subset_size == 1
        assert "BurstFilter" in CONF.filter_scheduler.enabled_filters
        if not CONF.burst.enabled:
            return True
        wants_burst = spec_obj.flavor.extra_specs.get("burst") == "yes"
        return (host_state.host in CONF.burst.hosts) == wants_burst
