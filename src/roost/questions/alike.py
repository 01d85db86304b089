# SPDX-License-Identifier: Apache-2.0
"""Which requests have the same headroom, so that it need not be counted for each."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from roost.model.request import RequestSpec
from roost.scheduler.incremental.engine import make_distinguish
from roost.scheduler.search import Rules


def headroom_key(rules: Rules, spec: RequestSpec) -> Hashable:
    """Equal for requests that differ in the names of their flavors alone, where no rule looks at these.

    None where that is not known, as a plugin may look at anything. Other differences than in flavors do not count.
    """
    if not rules.are_built_in:
        return None
    distinguish = make_distinguish(rules.filters, rules.prefilters.limit_tenants_to_placement_aggregate)
    size = replace(spec.flavor, name="", id=None, flavorid=None)
    return size, distinguish(spec) if distinguish else None
