# SPDX-License-Identifier: Apache-2.0
"""2015: six, jsonutils, hints that are a text or a list, retry data, limits that travel with the host."""

import six
from oslo_serialization import jsonutils
from oslo_utils import strutils

from nova.openstack.common import timeutils
from nova.scheduler import filters


class QuietFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        hints = filter_properties["scheduler_hints"] or {}
        if not strutils.bool_from_string(hints.get("quiet", "no")):
            return True
        avoid = hints.get("avoid", [])
        if isinstance(avoid, six.string_types):
            avoid = jsonutils.loads(avoid) if avoid.startswith("[") else [avoid]
        host_state.limits["quiet_since"] = timeutils.utcnow().year
        tried = [each[0] for each in filter_properties.get("retry", {}).get("hosts", [])]
        return host_state.num_io_ops == 0 and host_state.host not in list(avoid) + tried
