# SPDX-License-Identifier: Apache-2.0
"""2013: `_` is everywhere without an import, the database is asked, the options come from oslo.config."""

from oslo.config import cfg

from nova import db
from nova.openstack.common import log as logging
from nova.scheduler import filters

rack_opts = [
    cfg.StrOpt("rack_key", default="rack", help=_("Aggregate metadata key that names the rack")),
]
CONF = cfg.CONF
CONF.register_opts(rack_opts)
LOG = logging.getLogger(__name__)


class RackFilter(filters.BaseHostFilter):
    run_filter_once_per_request = True

    def host_passes(self, host_state, filter_properties):
        hints = filter_properties.get("scheduler_hints") or {}
        wanted = hints.get("rack")
        if not wanted:
            return True
        context = filter_properties["context"].elevated()
        for aggregate in db.aggregate_get_by_host(context, host_state.host):
            if aggregate["metadetails"].get(CONF.rack_key) == wanted:
                return True
        LOG.audit(_("Host %(host)s is not in rack %(rack)s"), {"host": host_state.host, "rack": wanted})
        return False
