# SPDX-License-Identifier: Apache-2.0
"""Filters of somebody's own; nova.conf beside this file enables the first."""

from roost import filters


class myFilter(filters.BaseHostFilter):  # noqa: N801 - the name is the author's
    """Only hosts with more free memory than the flavor takes: the last MiB is left alone."""

    def host_passes(self, host_state, filter_properties):
        """Nova's older spelling: the request as a dict."""
        return host_state.free_ram_mb > filter_properties.get("instance_type")["memory_mb"]


class SsdFilter(filters.HostFilter):
    """Who asks for SSDs gets a host with SSDs, and those hosts are for nobody else."""

    def host_passes(self, host, spec):
        """Nova's newer spelling: the request as an object."""
        return self.wants_ssd(spec) == self.has_ssd(host)

    def reason(self, host, spec):
        """What `roost explain` says of a host that was left out."""
        return "it has no SSDs" if self.wants_ssd(spec) else "its SSDs are for those who ask for them"

    def wants_ssd(self, spec):
        """The flavor says so in its extra specs."""
        return spec.flavor.extra_specs.get("ssd") == "true"

    def has_ssd(self, host):
        """One of the host's aggregates says so in its metadata."""
        return "true" in host.aggregate_values("ssd")
