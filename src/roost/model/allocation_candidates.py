# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates: what placement offers for one instance of a request, on which resource providers.

They decide about capacity and traits in place of a host's own columns where a request takes resources of more than
one provider: a child of the host's provider, such as a GPU, or a pool that several hosts share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Amounts = Mapping[str, int]
"""Resource class -> amount."""


@dataclass(frozen=True)
class AllocationCandidate:
    """One way to serve one instance: what is taken from each provider."""

    allocations: Mapping[str, Amounts]
    """Provider uuid -> what is taken from it."""
    mappings: Mapping[str, Sequence[str]]
    """Suffix of a request group, empty for the one without -> uuids of the providers that serve it."""

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute by its name: filters of nova's shape read candidates as dicts."""
        return getattr(self, name, default)


@dataclass(frozen=True)
class AllocationCandidates:
    """The candidates of all hosts for a request, and what its providers have left."""

    by_node: Mapping[str, tuple[AllocationCandidate, ...]]
    """Uuid of a compute node, which is its root provider -> candidates that take something from it, best first."""
    free: Mapping[tuple[str, str], int]
    """(Provider uuid, resource class) -> amount that can still be taken."""

    def of(self, node_uuid: str) -> list[AllocationCandidate]:
        """The candidates of a node for which all providers have enough left."""
        return [each for each in self.by_node.get(node_uuid, ()) if self._fits(each)]

    def without(self, taken: AllocationCandidate) -> AllocationCandidates:
        """What is left for the other instances of the request when one of them has taken this candidate."""
        free = dict(self.free)
        for provider, amounts in taken.allocations.items():
            for name, amount in amounts.items():
                free[provider, name] = free.get((provider, name), 0) - amount
        return replace(self, free=free)

    def _fits(self, candidate: AllocationCandidate) -> bool:
        return all(
            self.free.get((provider, name), 0) >= amount
            for provider, amounts in candidate.allocations.items()
            for name, amount in amounts.items()
        )
