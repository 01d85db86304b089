# SPDX-License-Identifier: Apache-2.0
"""Was this host tried already?"""

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.request import RequestSpec


class RetryFilter(Filter):
    """Leave out the (host, node) pairs on which this instance failed before."""

    def applies_to(self, spec: RequestSpec) -> bool:
        """Something was tried."""
        return bool(spec.retry and spec.retry.hosts)

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Not among the tried pairs."""
        pairs = spec.retry.hosts if spec.retry else ()
        tried = [row for row in map(hosts.table.find_row, pairs) if row is not None]
        return ~np.isin(hosts.rows, tried)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """How often it was tried."""
        attempts = spec.retry.num_attempts if spec.retry else 0
        return f"tried already; this is attempt {attempts}"
