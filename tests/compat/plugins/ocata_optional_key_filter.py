# SPDX-License-Identifier: Apache-2.0
"""2017: asks the metadata of aggregates for keys that need not be there."""

from nova import db
from nova.scheduler import filters
from nova.scheduler.filters import utils


class OptionalKeyFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        metadata = utils.aggregate_metadata_get_by_host(host_state)
        assert db.aggregate_metadata_get_by_host(None, host_state.host)["no such key"] == set()
        if metadata["licences"]:
            return "debian" in metadata["licences"]
        return not metadata["ram_headroom_mb"]
