# SPDX-License-Identifier: Apache-2.0
"""2015: imports the file beside it when it runs."""

from nova.scheduler import filters


class LatePoolFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        import Node

        return host_state.host in Node.NAMES
