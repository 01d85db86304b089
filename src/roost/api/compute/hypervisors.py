# SPDX-License-Identifier: Apache-2.0
"""Hypervisors: the nodes of hosts with their use and state, as each version of the API shows them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel

from roost.api.call import Call, CurrentCall, answer
from roost.api.compute.server_list import Marker, PageLimit, next_links, page_size
from roost.api.compute.services import seconds_until_down
from roost.api.microversions import Microversion, v
from roost.errors import BadInput, UnknownName
from roost.model.uuids import is_uuid
from roost.records.hypervisors import HypervisorRecord, get_hypervisor, list_hypervisors, sum_hypervisors
from roost.store.pages import Page

CPU_INFO_AS_OBJECT, UUIDS, EMPTY_SERVERS, WITHOUT_AMOUNTS = v(28), v(53), v(75), v(88)
"""Since when cpu_info is no text, ids are uuids, a hypervisor without servers says so, and amounts are left out."""
AMOUNTS = (
    *("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb"),
    *("free_disk_gb", "current_workload", "running_vms", "disk_available_least"),
)


def named_json(version: Microversion, node: HypervisorRecord, *, with_servers: bool) -> dict[str, Any]:
    """Its id, name and state; `with_servers`: with the servers on it."""
    shown: dict[str, Any] = {
        "id": node.uuid if version >= UUIDS else node.id,
        "hypervisor_hostname": node.hypervisor_hostname,
        "state": "up" if node.is_up else "down",
        "status": "disabled" if node.disabled else "enabled",
    }
    if with_servers and (node.servers or version >= EMPTY_SERVERS):
        shown["servers"] = [{"name": each.name, "uuid": each.uuid} for each in node.servers]
    return shown


def detailed(version: Microversion, node: HypervisorRecord, *, with_servers: bool) -> dict[str, Any]:
    """With its kind, address and service, and before 2.88 with its amounts."""
    shown = named_json(version, node, with_servers=with_servers) | {
        "hypervisor_type": node.hypervisor_type or "",
        "hypervisor_version": node.hypervisor_version,
        "host_ip": node.host_ip,
        "service": {
            "id": node.service_uuid if version >= UUIDS else node.service_id,
            "host": node.host,
            "disabled_reason": node.disabled_reason,
        },
    }
    if version >= WITHOUT_AMOUNTS:
        return shown | {"uptime": None}
    return shown | {name: getattr(node, name) for name in AMOUNTS} | {"cpu_info": _cpu_info(version, node.cpu_info)}


def _cpu_info(version: Microversion, reported: Any) -> Any:
    """What an agent reported of its CPUs: an object, before 2.28 as text."""
    if version < CPU_INFO_AS_OBJECT:
        return reported if isinstance(reported, str) else json.dumps(reported or {})
    if isinstance(reported, str):
        with suppress(ValueError):
            reported = json.loads(reported)
    return reported if isinstance(reported, dict) else {}


PAGED = v(33)


class HypervisorQuery(BaseModel):
    """Which hypervisors are listed; there are pages since 2.33, a pattern and servers since 2.53."""

    hypervisor_hostname_pattern: str | None = None
    with_servers: bool = False
    limit: PageLimit = None
    marker: Marker = None


# --- lists -------------------------------------------------------------------------------------------


def list_names(query: Annotated[HypervisorQuery, Query()], call: CurrentCall) -> Response:
    """List hypervisors by name, with their state."""
    return _answer_page(call, query, is_detailed=False)


def list_details(query: Annotated[HypervisorQuery, Query()], call: CurrentCall) -> Response:
    """List hypervisors with what they have."""
    return _answer_page(call, query, is_detailed=True)


def _answer_page(call: Call, query: HypervisorQuery, *, is_detailed: bool) -> Response:
    page, pattern, with_servers = Page(), None, False
    if call.version >= UUIDS:
        pattern, with_servers = query.hypervisor_hostname_pattern, query.with_servers
    if pattern is not None and (query.limit is not None or query.marker is not None):
        raise BadInput(
            "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported."
        )
    if call.version >= PAGED and pattern is None:
        page = Page(page_size(call, query.limit), _marker(call, query.marker))
    found = _read(call, pattern=pattern, page=page, with_servers=with_servers)
    show = detailed if is_detailed else named_json
    shown = [show(call.version, each, with_servers=with_servers) for each in found]
    ids = [str(each["id"]) for each in shown]
    links = {} if page.limit is None else next_links(call, "hypervisors", ids, page.limit)
    return answer({"hypervisors": shown} | links)


def _marker(call: Call, marker: str | None) -> str | int | None:
    if marker is None or call.version >= UUIDS:
        return marker
    if not _is_number(marker):
        raise BadInput(f"marker [{marker[:60]}] not found")
    return int(marker)


def _read(call: Call, pattern: str | None, **wanted: Any) -> list[HypervisorRecord]:
    """The hypervisors wanted; UnknownName if there is a pattern that none fits."""
    parts = call.parts
    found = list_hypervisors(parts.engine, parts.servers.times, seconds_until_down(call), pattern=pattern, **wanted)
    if pattern is not None and not found:
        raise UnknownName(f"No hypervisor matching '{pattern[:60]}' could be found.")
    return found


# --- one ---------------------------------------------------------------------------------------------


def show(hypervisor: str, call: CurrentCall, *, with_servers: bool = False) -> Response:
    """Show one hypervisor: by its uuid, before 2.53 by its number."""
    shows_servers = with_servers and call.version >= UUIDS
    found = _find(call, hypervisor, with_servers=shows_servers)
    return answer({"hypervisor": detailed(call.version, found, with_servers=shows_servers)})


def show_uptime(hypervisor: str, call: CurrentCall) -> Response:
    """Show one hypervisor with how long it is up: null, for agents do not report it."""
    named = named_json(call.version, _find(call, hypervisor), with_servers=False)
    return answer({"hypervisor": named | {"uptime": None}})


def _find(call: Call, hypervisor: str, *, with_servers: bool = False) -> HypervisorRecord:
    parts = call.parts
    number_or_uuid = _number_or_uuid(call, hypervisor)
    down_time = seconds_until_down(call)
    return get_hypervisor(parts.engine, number_or_uuid, parts.servers.times, down_time, with_servers=with_servers)


def _number_or_uuid(call: Call, hypervisor: str) -> str | int:
    if call.version >= UUIDS:
        if not is_uuid(hypervisor):
            raise BadInput(f"Invalid uuid {hypervisor[:60]}")
        return hypervisor
    if not _is_number(hypervisor):
        raise UnknownName(f"Hypervisor with ID '{hypervisor[:60]}' could not be found.")
    return int(hypervisor)


def _is_number(text: str) -> bool:
    """Whether a text can be the number of a hypervisor: all numbers of that length fit into the database."""
    return text.isascii() and text.isdecimal() and len(text) < 19


# --- before 2.53 -------------------------------------------------------------------------------------


def search(pattern: str, call: CurrentCall) -> Response:
    """List the hypervisors whose name contains a text."""
    found = _read(call, pattern)
    return answer({"hypervisors": [named_json(call.version, each, with_servers=False) for each in found]})


def list_servers(pattern: str, call: CurrentCall) -> Response:
    """List the hypervisors whose name contains a text, with their servers."""
    found = _read(call, pattern, with_servers=True)
    return answer({"hypervisors": [named_json(call.version, each, with_servers=True) for each in found]})


# --- before 2.88 -------------------------------------------------------------------------------------


def show_statistics(call: CurrentCall) -> Response:
    """Show the sums over the hypervisors of enabled services."""
    return answer({"hypervisor_statistics": asdict(sum_hypervisors(call.parts.engine))})
