# SPDX-License-Identifier: Apache-2.0
"""2023: needs a library that is not installed."""

import acme_no_such_library

from nova.scheduler import filters


class HelperFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return acme_no_such_library.passes(host_state)
