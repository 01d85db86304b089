# SPDX-License-Identifier: Apache-2.0
"""Asks placement for the allocation candidates of requests that the replica cannot answer.

These are requests for resources of more than the host's own provider, all requests until every provider was read,
and those for which the replica has no host: placement has the last word.
"""

from __future__ import annotations

import logging

from roost.errors import PlacementBadRequest
from roost.hosts import HostTable
from roost.model import RequestSpec
from roost.model.resources import AllocationCandidates
from roost.nova_cloud.placement.candidate_queries import (
    candidate_queries,
    decode_allocation_candidates,
    needs_candidates,
)
from roost.nova_cloud.placement.client import PlacementClient
from roost.nova_cloud.placement.provider_reader import ProviderReader
from roost.scheduler.prefilters import PrefilterOptions, implied_traits

LOG = logging.getLogger(__name__)


class CandidateReader:
    """Reads allocation candidates. May be shared by threads."""

    def __init__(
        self,
        client: PlacementClient,
        providers: ProviderReader,
        prefilters: PrefilterOptions,
        *,
        takes_shared_cpus: bool = True,
    ) -> None:
        """`takes_shared_cpus`: dedicated CPUs may be claimed as VCPU of hosts that do not offer PCPU."""
        self._client, self._providers, self.prefilters = client, providers, prefilters
        self._takes_shared_cpus = takes_shared_cpus

    def find(self, spec: RequestSpec, table: HostTable, is_last_look: bool) -> AllocationCandidates | None:
        """The candidates of a request; None where the replica can tell, unless `is_last_look`."""
        if not is_last_look and self._providers.is_complete and not self._is_beyond_replica(spec):
            return None
        traits = frozenset().union(*implied_traits(spec, self.prefilters).values())
        node = _only_node(spec, table)
        queries = candidate_queries(spec, traits, node, takes_shared_cpus=self._takes_shared_cpus)
        try:
            answers = self._client.map(lambda query: self._client.get("/allocation_candidates", query), queries)
        except PlacementBadRequest as error:
            LOG.warning("placement does not understand what flavor %s asks for: %s", spec.flavor.name, error)
            return AllocationCandidates({}, {})
        return decode_allocation_candidates(answers)

    def _is_beyond_replica(self, spec: RequestSpec) -> bool:
        return needs_candidates(spec) or not self._providers.other_classes.isdisjoint(spec.amounts)


def _only_node(spec: RequestSpec, table: HostTable) -> str | None:
    """The uuid of the only node that a request may go to; None if it may go to several, or to an unknown one."""
    wanted = spec.requested_destination
    host, node = (wanted.host, wanted.node) if wanted and wanted.host else (None, None)
    host = host or (spec.force_hosts[0] if spec.force_hosts else None)
    node = node or (spec.force_nodes[0] if spec.force_nodes else None)
    if not host:
        return None
    rows = [row for row in table.rows_of_host(host) if node in (None, "", table.names[row][1])]
    return table.uuids.get(rows[0]) if len(rows) == 1 else None
