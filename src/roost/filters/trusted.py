# SPDX-License-Identifier: Apache-2.0
"""Hosts that an attestation service vouches for."""

from __future__ import annotations

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.model.request import RequestSpec

EXTRA_SPEC = "trust:trusted_host"


class TrustedFilter(Filter):
    """Keep only hosts whose trust level is the one in the extra spec `trust:trusted_host`.

    Whoever fills the table asks the attestation service; a host nobody vouched for is `unknown`.
    """

    run_filter_once_per_request = True
    reads = frozenset({"trust_level"})

    def applies_to(self, spec: RequestSpec) -> bool:
        """A level is asked for."""
        return bool(spec.flavor.extra_specs.get(EXTRA_SPEC))

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Its level is the one asked for."""
        wanted = spec.flavor.extra_specs.get(EXTRA_SPEC)
        return hosts.per_value("trust_level", lambda level: not wanted or level == wanted)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """Asked against attested."""
        return f"trust level {spec.flavor.extra_specs.get(EXTRA_SPEC)} asked; the host is {host.trust_level}"
