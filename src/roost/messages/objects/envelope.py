# SPDX-License-Identifier: Apache-2.0
"""The envelope of nova's versioned objects in messages: name, namespace, version, fields.

Any minor version is accepted: unknown fields are ignored. Other major versions are refused, except for those of
OLDER_MAJORS. Known fields that a record does not hold are stored when it is parsed, and sent again when it is
written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from roost.errors import FieldError
from roost.model.fields import MAPPING, OPTIONAL_TEXT, PLAIN_DATA, listed
from roost.model.kinds import shown
from roost.model.message_fields import FromMessage

Message = TypeVar("Message", bound=FromMessage)


NAME, NAMESPACE, VERSION, DATA, CHANGES = (
    f"nova_object.{part}" for part in ("name", "namespace", "version", "data", "changes")
)
NOVA = "nova"

VERSIONS: Mapping[str, str] = {
    "Aggregate": "1.3",
    "AggregateList": "1.3",
    "CellMapping": "1.1",
    "ComputeNode": "1.19",
    "ComputeNodeList": "1.17",
    "Destination": "1.4",
    "Flavor": "1.2",
    "ImageMeta": "1.8",
    "ImageMetaProps": "1.44",
    "Instance": "2.8",
    "InstanceGroup": "1.11",
    "InstanceList": "2.6",
    "InstanceNUMACell": "1.6",
    "InstanceNUMATopology": "1.3",
    "InstancePCIRequest": "1.4",
    "InstancePCIRequests": "1.1",
    "NUMACell": "1.5",
    "NUMAPagesTopology": "1.1",
    "NUMATopology": "1.2",
    "NUMATopologyLimits": "1.1",
    "NetworkMetadata": "1.0",
    "NetworkRequest": "1.3",
    "NetworkRequestList": "1.1",
    "PciDevicePool": "1.1",
    "PciDevicePoolList": "1.1",
    "RequestGroup": "1.3",
    "RequestLevelParams": "1.1",
    "RequestSpec": "1.15",
    "SchedulerLimits": "1.0",
    "SchedulerRetries": "1.1",
    "SecurityGroup": "1.2",
    "SecurityGroupList": "1.1",
    "Selection": "1.1",
    "VirtCPUTopology": "1.0",
}
"""Object name -> version that is written; objects with the same major version are read."""
OLDER_MAJORS = {"Instance": (1,), "InstanceList": (1,)}
"""Object name -> older major versions that are read too: the fields used here have not changed."""

_NUMBERS = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")


class Opened(NamedTuple):
    """The content of an envelope."""

    data: Mapping[str, Any]
    """The fields that are set."""
    is_newer: bool = False
    """Whether its minor version is above the one in VERSIONS."""


def is_envelope(value: Any) -> bool:
    """Whether the value is the envelope of an object of nova, of any class."""
    return (type(value) is dict or isinstance(value, Mapping)) and NAME in value


def open_envelope(value: Any, name: str, where: str) -> Opened:
    """The fields of an object of this class; `where` is the path of the value in the message."""
    if not is_envelope(value):
        raise FieldError(where, f"{shown(value)} is no object of nova's", f"send a {name}")
    if value[NAME] != name or value.get(NAMESPACE) != NOVA:
        found = f"{value.get(NAMESPACE)}.{value[NAME]}"
        raise FieldError(where, f"is an object {shown(found)}", f"send a {NOVA}.{name}")
    is_newer = _check_version(value.get(VERSION), name, where)
    data = value.get(DATA)
    return Opened(data if type(data) is dict else MAPPING.strict(data, f"{where}.{DATA}"), is_newer)


def open_record(value: Any, name: str, where: str) -> Opened:
    """The fields of an object of this class, or of a plain mapping, which releases before Mitaka sent."""
    return open_envelope(value, name, where) if is_envelope(value) else Opened(MAPPING.strict(value, where))


def open_list(value: Any, name: str, where: str) -> list[Any]:
    """The elements of a list object or of a plain list; empty for null."""
    if value is None:
        return []
    if is_envelope(value):
        value, where = open_envelope(value, name, where).data.get("objects") or [], f"{where}.objects"
    if not isinstance(value, (list, tuple)):
        raise FieldError(where, f"{shown(value)} is not a list")
    return list(value)


def close_envelope(name: str, data: Mapping[str, Any], version: str | None = None) -> dict[str, Any]:
    """The envelope of an object with these fields, none marked as changed. `version` defaults to VERSIONS."""
    return {NAME: name, NAMESPACE: NOVA, VERSION: version or VERSIONS[name], DATA: dict(data)}


def close_list(name: str, objects: list[Any]) -> dict[str, Any]:
    """The envelope of a list object with these elements."""
    return close_envelope(name, {"objects": objects})


def _check_version(version: Any, name: str, where: str) -> bool:
    """Whether the minor version is newer than the one in VERSIONS; FieldError for other major versions."""
    if version == VERSIONS[name]:
        return False
    match = _NUMBERS.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        raise FieldError(where, f"{shown(version)} is no version of {name}", "write major.minor")
    known_major, known_minor = map(int, VERSIONS[name].split("."))
    major, minor = map(int, match.groups())
    if major in OLDER_MAJORS.get(name, ()):
        return False
    if major != known_major:
        raise FieldError(where, f"{name} {version} is not understood", f"send {name} {known_major}.x")
    return minor > known_minor


def store_unheld(record: Message, data: Mapping[str, Any], where: str) -> Message:
    """Store the fields in `data` that the class lists in `unheld` (scalars, lists of scalars); returns the record."""
    others = {name: _scalars(data[name], f"{where}.{name}") for name in type(record).unheld if name in data}
    return record.received(data, others)


def _scalars(value: Any, where: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_scalar(each, f"{where}[{at}]") for at, each in enumerate(listed(value, where))]
    return _scalar(value, where)


def _scalar(value: Any, where: str) -> Any:
    is_number = isinstance(value, (bool, int, float))
    return PLAIN_DATA.strict(value, where) if is_number else OPTIONAL_TEXT.lenient(value, where)


def fields_to_send(
    record: FromMessage, held: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fields of the object that is sent for a record.

    `held`: fields that the record holds; `defaults`: their defaults. A record that was parsed from a message sends
    the fields of the message, fields that are not at their default, and stored unheld fields. Any other record sends
    all fields that have a value, and the defaults of unheld ones.
    """
    sent, defaults = record.sent, defaults or {}
    if sent is None:
        others = {name: list(each) if each == () else each for name, each in type(record).unheld.items()}
        return {name: value for name, value in {**held, **others}.items() if value is not None}
    kept = {name: value for name, value in held.items() if name in sent.names or value != defaults.get(name)}
    return kept | dict(sent.others)
