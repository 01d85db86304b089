# SPDX-License-Identifier: Apache-2.0
"""Servers, hosts, flavors and images as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from roost.cli.output import Columns, Report, fields
from roost.client.interface import Record

NOTHING = "-"
FIELD_AND_VALUE = ("Field", "Value")
FLAVOR = "flavor"
SERVER_COLUMNS = {
    "ID": "id",
    "Name": "name",
    "Status": "status",
    "Task": "task_state",
    "Power": "power_state",
    "Host": "host",
    "Zone": "availability_zone",
    "Flavor": "flavor",
    "Image": "image",
    "Project": "project_id",
    "Created": "created_at",
}
SERVER_MINOR = frozenset({"Task", "Power", "Zone", "Image", "Project", "Created"})
"""Columns of servers that only --long shows."""
HOST_COLUMNS = {
    "Host": "host",
    "State": "state",
    "Status": "status",
    "Zone": "availability_zone",
    "Servers": "servers",
    "vCPUs used": "vcpus_used",
    "vCPUs": "vcpus",
    "MiB used": "memory_mb_used",
    "MiB": "memory_mb",
    "GB used": "disk_gb_used",
    "GB": "disk_gb",
    "Node": "node",
    "Hypervisor": "hypervisor_type",
    "Reason": "disabled_reason",
    "Updated": "updated_at",
}
HOST_MINOR = frozenset({"GB used", "GB", "Node", "Hypervisor", "Reason", "Updated"})
FLAVOR_COLUMNS = {"Name": "name", "ID": "id", "vCPUs": "vcpus", "MiB": "memory_mb", "GB": "root_gb"}
IMAGE_COLUMNS = {"Name": "name", "ID": "id"}
SERVER_FIELDS = fields(
    *("id", "name", "description", "status", "vm_state", "task_state", "power_state", "host", "node"),
    *("availability_zone", "project_id", "user_id", "flavor", "image", "metadata", "reservation_id"),
    *("created_at", "updated_at", "launched_at", "fault", "attempts", "migrations"),
)
"""What a record of a server has, as roost.client.interface describes it; a snapshot may have less."""
HOST_FIELDS = fields(
    *("host", "node", "state", "status", "disabled_reason", "forced_down", "availability_zone", "servers"),
    *("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "disk_gb", "disk_gb_used", "hypervisor_type"),
    "updated_at",
)


def by_name(records: Iterable[Record]) -> list[Record]:
    """Records in the order of their names."""
    return sorted(records, key=lambda each: (str(each["name"]), str(each["id"])))


def list_report(
    records: Sequence[Record], columns: Columns, noun: str, minor: frozenset[str] = frozenset()
) -> Report:
    """A row for each record. `columns`: title -> key; `minor`: those that a table leaves out."""
    rows = [tuple(cell(record.get(key)) for key in columns.values()) for record in records]
    caption = f"{len(records)} {noun}{'' if len(records) == 1 else 's'}"
    return Report(list(records), tuple(columns), rows, caption=caption, minor=minor)


def server_report(servers: Sequence[Record]) -> Report:
    """A row for each server that a command was about."""
    return list_report(servers, SERVER_COLUMNS, "server", SERVER_MINOR)


def record_report(record: Record) -> Report:
    """A row for each field of one record; the fields of a record in it have rows of their own."""
    rows = []
    for key, value in record.items():
        if isinstance(value, dict) and value and key != FLAVOR:
            rows += [(f"{key} {inner}", cell(each)) for inner, each in value.items()]
        else:
            rows.append((key, _flavor_text(value) if key == FLAVOR else cell(value)))
    texts = [(field, str(value)) for field, value in rows]
    return Report(record, FIELD_AND_VALUE, texts, pick=partial(_pick, record))


def _pick(record: Record, names: Sequence[str]) -> Report:
    """A row for each of these fields of one record."""
    picked = {name: record.get(name) for name in names}
    rows = [(name, str(_field_text(name, value))) for name, value in picked.items()]
    return Report(picked, FIELD_AND_VALUE, rows)


def _field_text(name: str, value: Any) -> Any:
    """A field on lines of its own: a record as `key=value, key=value`, since its name is all that is beside it."""
    if name == FLAVOR:
        return _flavor_text(value)
    return cell(_line(value) if isinstance(value, dict) else value)


def cell(value: Any) -> Any:
    """A value as a table shows it: a record by its name, a list by its lines, None as a dash.

    What users name their servers is printed without what would control a terminal.
    """
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, dict):
        value = value.get("name") or value.get("id") or _line(value)
    if isinstance(value, (list, tuple)):
        value = "\n".join(_line(each) for each in value)
    text = "" if value is None else str(value)
    return "".join(each if each.isprintable() or each == "\n" else " " for each in text) or NOTHING


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={each}" for key, each in value.items() if each is not None)
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _flavor_text(flavor: Any) -> Any:
    if not isinstance(flavor, dict):
        return cell(flavor)
    sizes = [f"{flavor[key]} {unit}" for key, unit in (("vcpus", "vCPUs"), ("memory_mb", "MiB"), ("root_gb", "GB"))
             if flavor.get(key) is not None]  # fmt: skip
    return f"{cell(flavor)} ({', '.join(sizes)})" if sizes else cell(flavor)
