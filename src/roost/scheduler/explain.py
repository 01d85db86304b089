# SPDX-License-Identifier: Apache-2.0
"""Why a host cannot take a request, host by host; computed on demand."""

from __future__ import annotations

from dataclasses import dataclass

from roost.hosts import HostTable
from roost.model.request import RequestSpec
from roost.scheduler.pipeline import Pipeline


@dataclass(frozen=True)
class Rejection:
    """A rejected host, the check that rejected it, and the reason in words."""

    host: str
    node: str
    stage: str
    name: str
    reason: str


def explain(pipeline: Pipeline, table: HostTable, spec: RequestSpec) -> list[Rejection]:
    """Every host that cannot take the request, with the first check that rejects it, sorted by host and node."""
    hosts = table.in_the_running()
    found = []
    for check in pipeline.rules.checks(table, spec, index=0):
        if not len(hosts):
            break
        hosts, rejected = check.split(hosts)
        found += [
            Rejection(host.host, host.nodename, check.stage, check.name, check.reason(host)) for host in rejected
        ]
    return sorted(found, key=lambda each: (each.host, each.node))
