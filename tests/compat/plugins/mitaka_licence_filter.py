# SPDX-License-Identifier: Apache-2.0
"""2016: the request is an object; image properties; applies to rebuilds."""

from nova.scheduler import filters
from nova.scheduler.filters import utils


class LicenceFilter(filters.BaseHostFilter):
    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    def host_passes(self, host_state, spec_obj):
        image_props = spec_obj.image.properties if spec_obj.image else {}
        distro = image_props.get("os_distro")
        if not distro:
            return True
        licences = utils.aggregate_metadata_get_by_host(host_state, "licences")
        return distro in licences.get("licences", set())
