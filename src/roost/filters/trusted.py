# SPDX-License-Identifier: Apache-2.0
"""The filter for hosts with an attested trust level."""

from __future__ import annotations

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import name_of
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec

EXTRA_SPEC = "trust:trusted_host"


class TrustedFilter(Filter):
    """Keep only hosts whose trust level equals the extra spec `trust:trusted_host`.

    Trust levels come from the attestation service; a host that it does not attest has the level `unknown`.
    """

    run_filter_once_per_request = True
    reads = frozenset({"trust_level"})

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if the flavor has the extra spec `trust:trusted_host`."""
        return bool(spec.flavor.extra_specs.get(EXTRA_SPEC))

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts with the requested trust level."""
        wanted = spec.flavor.extra_specs.get(EXTRA_SPEC)
        return hosts.per_value("trust_level", lambda level: not wanted or level == wanted)

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The requested trust level, and that of the host."""
        return f"trust level {spec.flavor.extra_specs.get(EXTRA_SPEC)} asked; the host is {host.trust_level}"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A flavor without the extra spec, where the host cannot be attested."""
        wanted = spec.flavor.extra_specs.get(EXTRA_SPEC)
        text = f"have {name_of(host)} attested as {wanted}, or ask for a flavor without the extra spec {EXTRA_SPEC}"
        return Remedy(text, (RequestChange(f"flavor.extra_specs.{EXTRA_SPEC}", None),))
