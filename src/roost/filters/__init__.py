# SPDX-License-Identifier: Apache-2.0
"""Filters: which hosts may take a request, one rule a file. Start at `base.py`; the list is in `plugins.registry`."""

from roost.filters.base import BaseHostFilter, Filter, HostFilter

__all__ = ["BaseHostFilter", "Filter", "HostFilter", "all_filters"]


def all_filters() -> list[type[Filter]]:
    """Every built-in filter class; the option `available_filters` may name this function."""
    from roost.plugins import registry

    return list(registry.FILTERS)
