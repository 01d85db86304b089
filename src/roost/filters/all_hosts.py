# SPDX-License-Identifier: Apache-2.0
"""The filter that lets everybody through."""

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.request import RequestSpec


class AllHostsFilter(Filter):
    """Let every host through."""

    run_filter_once_per_request = True

    def applies_to(self, spec: RequestSpec) -> bool:
        """Never anything to do."""
        return False

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True throughout."""
        return np.ones(len(hosts), dtype=np.bool_)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Never asked: nothing is rejected."""
        return "nothing is rejected"
