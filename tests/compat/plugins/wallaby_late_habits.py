# SPDX-License-Identifier: Apache-2.0
"""2021: what is missing shows only when these run."""

import nova.conf
from nova import objects
from nova.scheduler import filters

CONF = nova.conf.CONF


class LateOptionFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return CONF.compute.no_such_option


class LateNameFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return objects.Migration.get_by_id(None, 1)


class LateImportFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        from nova.objects import Migration

        return Migration


class LateConstructor(filters.BaseHostFilter):
    def __init__(self):
        super().__init__()
        self.size = CONF.compute.no_such_option


def late_filters():
    return [CONF.compute.no_such_option]
