# SPDX-License-Identifier: Apache-2.0
"""Checks that ask for the same thing in two places, such as RamFilter and capacity: they are lifted together."""

from __future__ import annotations

from collections.abc import Sequence

from roost.scheduler.checks import Check

_ALIKE: tuple[tuple[str, ...], ...] = (
    ("disabled", "ComputeFilter"),
    ("vcpu", "CoreFilter", "AggregateCoreFilter"),
    ("ram", "RamFilter", "AggregateRamFilter"),
    ("disk", "DiskFilter", "AggregateDiskFilter"),
    ("availability_zone", "AvailabilityZoneFilter"),
    ("tenant_aggregate", "AggregateMultiTenancyIsolation"),
    ("force_hosts", "force_nodes"),
)
_FIRST_OF = {name: names[0] for names in _ALIKE for name in names}


def subject_of(check: Check) -> str:
    """What a check is about: its name, or that of the first of several that ask for the same thing."""
    if check.rule is not None and not check.rule.is_built_in:
        return check.name
    return _FIRST_OF.get(check.name, check.name)


def by_subject(checks: Sequence[Check]) -> dict[str, list[int]]:
    """Subject -> the numbers of the checks about it, in their order."""
    found: dict[str, list[int]] = {}
    for number, check in enumerate(checks):
        found.setdefault(subject_of(check), []).append(number)
    return found
