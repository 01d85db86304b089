# SPDX-License-Identifier: Apache-2.0
"""Which of the hosts is best. Start reading at `base.py`; the list of built-ins is in `roost/plugins.py`."""

from roost.weighers.base import BaseHostWeigher, HostWeigher, WeighedHost, Weigher, normalise

__all__ = ["BaseHostWeigher", "HostWeigher", "WeighedHost", "Weigher", "all_weighers", "normalise"]


def all_weighers() -> list[type[Weigher]]:
    """Every built-in weigher; `weight_classes` may name this function."""
    from roost import plugins

    return list(plugins.WEIGHERS)
