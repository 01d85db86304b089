# SPDX-License-Identifier: Apache-2.0
"""2014: dicts all the way down; metadata by nova.db; gettextutils; import_opt."""

from oslo.config import cfg

from nova import db
from nova.openstack.common.gettextutils import _
from nova.openstack.common import log as logging
from nova.scheduler import filters

LOG = logging.getLogger(__name__)
CONF = cfg.CONF
CONF.import_opt("default_availability_zone", "nova.availability_zones")


class TenantFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        spec = filter_properties.get("request_spec", {})
        props = spec.get("instance_properties", {})
        context = filter_properties["context"].elevated()
        metadata = db.aggregate_metadata_get_by_host(context, host_state.host, key="tenant")
        if metadata != {}:
            if props.get("project_id") not in metadata["tenant"]:
                LOG.warn(_("%s is for somebody else") % host_state, instance_uuid=spec.get("instance_uuids"))
                return False
        assert CONF.default_availability_zone == "nova"
        return isinstance(filter_properties, dict)
