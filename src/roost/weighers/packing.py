# SPDX-License-Identifier: Apache-2.0
"""Shares of a host in use: shared by BestFitWeigher, BalanceWeigher and StackWeigher."""

from __future__ import annotations

import numpy as np

from roost.hosts import Hosts
from roost.hosts.arrays import FloatArray

_DECIMALS = 9
"""Digits after the point to which shares are rounded."""


def used_share(hosts: Hosts, resource_class: str, more: int = 0) -> FloatArray:
    """Per host, the allocated share of a resource class if `more` were allocated; 0 for hosts that have none of it.

    The share is relative to the limit: (total - reserved) x allocation ratio.
    """
    shares = np.zeros(len(hosts))
    if f"limit:{resource_class}" not in hosts.table.numbers:
        return shares
    limits, allocated = hosts.column(f"limit:{resource_class}"), hosts.column(f"allocated:{resource_class}")
    np.divide(allocated + more, limits, out=shares, where=limits > 0)
    return shares


def round_shares(shares: FloatArray) -> FloatArray:
    """The shares without rounding errors, which min-max normalisation would amplify among equal hosts."""
    return shares.round(_DECIMALS)
