# SPDX-License-Identifier: Apache-2.0
"""The filter that passes every host."""

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.model.request import RequestSpec


class AllHostsFilter(Filter):
    """Pass every host."""

    run_filter_once_per_request = True

    def applies_to(self, spec: RequestSpec) -> bool:
        """Always False: there is nothing to check."""
        return False

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for all hosts."""
        return np.ones(len(hosts), dtype=np.bool_)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Never used: no host is rejected."""
        return "nothing is rejected"
