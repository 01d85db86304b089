# SPDX-License-Identifier: Apache-2.0
"""What is wrong with hosts that a check rejects, in a few words: `5 without enough memory`."""

from __future__ import annotations

_WORDS = {
    "cell": "in another cell",
    "requested_destination": "not the host asked for",
    "ignore_hosts": "ignored, as the request says",
    "force_hosts": "not the host asked for",
    "requested_aggregates": "outside the aggregates asked for",
    "forbidden_aggregates": "in a forbidden aggregate",
    "tenant_aggregate": "kept for other projects",
    "availability_zone": "outside the zone",
    "isolated_aggregates": "kept for requests that ask for their traits",
    "disabled": "disabled or down",
    "vcpu": "without enough CPUs",
    "ram": "without enough memory",
    "disk": "without enough disk",
    "traits": "without the traits",
    "placement": "without an offer of placement",
    "AggregateImagePropertiesIsolation": "kept for other images",
    "AggregateInstanceExtraSpecsFilter": "whose aggregates do not suit the flavor",
    "AggregateTypeAffinityFilter": "kept for other flavors",
    "ComputeCapabilitiesFilter": "without the capabilities",
    "ExactCoreFilter": "without exactly as many CPUs",
    "ExactDiskFilter": "without exactly as much disk",
    "ExactRamFilter": "without exactly as much memory",
    "GroupAffinityFilter": "other than that of the group",
    "GroupAntiAffinityFilter": "that have a member of the group",
    "DifferentHostFilter": "that run an instance to keep away from",
    "ImagePropertiesFilter": "that cannot run the image",
    "AggregateIoOpsFilter": "with too many I/O operations",
    "IoOpsFilter": "with too many I/O operations",
    "IsolatedHostsFilter": "kept for other images",
    "JsonFilter": "that do not match the query",
    "MetricsFilter": "without the metrics",
    "NUMATopologyFilter": "without room for the NUMA topology",
    "AggregateNumInstancesFilter": "with too many instances",
    "NumInstancesFilter": "with too many instances",
    "PciPassthroughFilter": "without the PCI devices",
    "RetryFilter": "tried already",
    "SameHostFilter": "without the instance to be near to",
    "ServerGroupAffinityFilter": "other than that of the group",
    "ServerGroupAntiAffinityFilter": "that have a member of the group",
    "SimpleCIDRAffinityFilter": "in another network",
    "TrustedFilter": "not trusted as asked",
    "TypeAffinityFilter": "that run other flavors",
}


def what_is_wrong(stage: str, subject: str) -> str:
    """What hosts have in common that a check about this subject rejects."""
    if subject in _WORDS:
        return _WORDS[subject]
    if stage == "prefilter":
        return f"without the traits of {subject}"
    return f"without enough {subject}" if stage == "capacity" else f"rejected by {subject}"
