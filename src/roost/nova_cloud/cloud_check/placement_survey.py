# SPDX-License-Identifier: Apache-2.0
"""Surveys placement: endpoint, version, token and the list of providers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roost.errors import OptionError, PlacementError, PlacementRefused
from roost.nova_cloud.cloud_check.probe_result import FAILED, OK, ProbeResult, failure
from roost.nova_cloud.placement.client import MICROVERSION, PlacementClient
from roost.nova_cloud.placement.keystone_adapter import describe_placement, make_adapter

WHERE = "placement"
CONNECT_SECONDS, READ_SECONDS = 5.0, 15.0
_UNAVAILABLE = "is it running, and is its address in [placement], or in keystone's catalogue, right?"


@dataclass
class PlacementSurvey:
    """What was found in placement."""

    results: list[ProbeResult] = field(default_factory=list)
    providers: frozenset[str] | None = None
    """Uuids of all providers; None if they cannot be read."""


def survey_placement(files: Sequence[Path]) -> PlacementSurvey:
    """Try placement with [placement] of these config files."""
    found = PlacementSurvey()
    try:
        adapter = make_adapter(files)
    except OptionError as error:
        found.results.append(failure(WHERE, "options", error))
        return found
    adapter.session.timeout = READ_SECONDS  # for keystone
    client = PlacementClient(adapter, threads=1, connect_seconds=CONNECT_SECONDS, read_seconds=READ_SECONDS)
    try:
        address = describe_placement(files)
        found.results.append(_version_result(client, address.get("endpoint") or address.get("auth_url", "")))
        if not found.results[-1].is_in_the_way:
            _read_providers(client, found)
    finally:
        client.close()
    return found


def _version_result(client: PlacementClient, address: str) -> ProbeResult:
    """Placement's root page names its versions; it needs an endpoint, and no token of placement's own."""
    try:
        answer = client.get("/")
    except PlacementRefused as error:  # by keystone: placement answers here without a token
        return _refusal(error)
    except PlacementError as error:
        return ProbeResult(WHERE, "endpoint", FAILED, error.message, error.hint or _UNAVAILABLE)
    try:
        version = answer["versions"][0]
        least, most = version["min_version"], version["max_version"]
        is_known = _number(least) <= _number(MICROVERSION) <= _number(most)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return ProbeResult(WHERE, "endpoint", FAILED, f"{address}: that is not placement", "correct the endpoint")
    if not is_known:
        text = f"{address} has versions {least} to {most}; {MICROVERSION} is needed"
        return ProbeResult(WHERE, "version", FAILED, text, "upgrade placement")
    return ProbeResult(WHERE, "endpoint", OK, f"{address}, version {MICROVERSION} of {least} to {most}")


def _number(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _read_providers(client: PlacementClient, found: PlacementSurvey) -> None:
    try:
        answer = client.get("/resource_providers")
        uuids = frozenset(each["uuid"] for each in answer["resource_providers"])
    except PlacementRefused as error:
        found.results.append(_refusal(error))
    except PlacementError as error:
        found.results.append(failure(WHERE, "providers", error))
    except (KeyError, TypeError):
        text = "the answer has no list of providers"
        found.results.append(ProbeResult(WHERE, "providers", FAILED, text, "is it placement that answers there?"))
    else:
        found.providers = uuids
        found.results.append(ProbeResult(WHERE, "providers", OK, f"the token is accepted; {len(uuids)} providers"))


def _refusal(error: PlacementRefused) -> ProbeResult:
    remedy = f"{error.hint}; its user needs the roles that nova's own user has"
    return ProbeResult(WHERE, "token", FAILED, error.message, remedy)
