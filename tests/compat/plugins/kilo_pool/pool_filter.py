# SPDX-License-Identifier: Apache-2.0
"""2015: imports the file beside it, as Python 2 allowed."""

import Node

from nova.scheduler import filters


class PoolFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        return host_state.host in Node.NAMES
