# SPDX-License-Identifier: Apache-2.0
"""2013: looks at what the message says of the instance: where it is, what runs in it, what its owner noted."""

from nova import db
from nova.scheduler import filters


class HomeFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        instance = filter_properties["request_spec"]["instance_properties"]
        home = instance.get("host")
        if not home:
            return True
        context = filter_properties["context"]
        racks = [db.aggregate_metadata_get_by_host(context, host, "rack") for host in (home, host_state.host)]
        return racks[0] == racks[1]


class NoteFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        spec = filter_properties["request_spec"]
        instance, flavor = spec["instance_properties"], spec["instance_type"]
        seen = (
            filter_properties.get("os_type"),
            instance["os_type"],
            instance["metadata"]["note"],
            instance["system_metadata"]["image_base"],
            instance["vm_state"],
            spec["security_group"],
            spec["image"]["checksum"],
            flavor["rxtx_factor"],
            filter_properties["same_rack"],
        )
        return seen == ("linux", "linux", "mine", "b1", "active", ["web"], "c0ffee", 2.5, True)
