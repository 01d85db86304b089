# SPDX-License-Identifier: Apache-2.0
"""The filter for hosts that were tried already."""

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec


class RetryFilter(Filter):
    """Leave out the (host, node) pairs on which earlier attempts to build the instance failed."""

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the request lists hosts of earlier attempts."""
        return bool(spec.retry and spec.retry.hosts)

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts that were not tried."""
        pairs = spec.retry.hosts if spec.retry else ()
        tried = [row for row in map(hosts.table.find_row, pairs) if row is not None]
        return ~np.isin(hosts.rows, tried)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """That the host was tried, and the number of the attempt."""
        attempts = spec.retry.num_attempts if spec.retry else 0
        return f"tried already; this is attempt {attempts}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A new request: its attempts start anew."""
        text = f"find out why the build failed on {host.host}, then send a new request"
        return Remedy(text, (RequestChange("retry", None),))
