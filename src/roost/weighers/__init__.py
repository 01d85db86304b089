# SPDX-License-Identifier: Apache-2.0
"""Weighers: which host is best, one rule a file. Start at `base.py`; the list is in `plugins.registry`."""

from roost.weighers.base import BaseHostWeigher, HostWeigher, WeighedHost, Weigher, normalise

__all__ = ["BaseHostWeigher", "HostWeigher", "WeighedHost", "Weigher", "all_weighers", "normalise"]


def all_weighers() -> list[type[Weigher]]:
    """Every built-in weigher class; the option `weight_classes` may name this function."""
    from roost.plugins import registry

    return list(registry.WEIGHERS)
