# SPDX-License-Identifier: Apache-2.0
"""What the weighers for those who pack have in common: shares of a host."""

from __future__ import annotations

import numpy as np

from roost.hosts import Hosts
from roost.hosts.arrays import FloatArray

_DECIMALS = 9


def used_share(hosts: Hosts, resource_class: str, more: int = 0) -> FloatArray:
    """Part of what the host may give out that is given out, were it `more`; 0 where the host has nothing to give."""
    shares = np.zeros(len(hosts))
    if f"limit:{resource_class}" not in hosts.table.numbers:
        return shares
    limits, allocated = hosts.column(f"limit:{resource_class}"), hosts.column(f"allocated:{resource_class}")
    np.divide(allocated + more, limits, out=shares, where=limits > 0)
    return shares


def settle(shares: FloatArray) -> FloatArray:
    """Equal hosts get equal numbers: rounding errors would be spread over the whole scale where all are equal."""
    return shares.round(_DECIMALS)
