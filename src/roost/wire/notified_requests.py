# SPDX-License-Identifier: Apache-2.0
"""Parser of the requests in nova's versioned notifications: payload objects, which are RequestSpec objects with gaps.

A payload lacks is_bfv, the id of the flavor, ports and request-level parameters. A RequestSpec that nova has stored
for the same instance has the first two, and is read for what the payload does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.errors import FieldError
from roost.model import RequestSpec
from roost.model.fields import MAPPING
from roost.wire.envelope import DATA, NAME, VERSIONS, close_envelope, is_envelope, open_envelope
from roost.wire.request_spec import request_from_object

PAYLOAD = "RequestSpecPayload"
_SUFFIX = "Payload"
_OBJECT_NAMES = {"ServerGroup": "InstanceGroup"}
"""Where the object has another name than its payload."""
_NOT_NOTIFIED = ("is_bfv", "request_level_params", "requested_resources", "requested_networks", "network_metadata")
"""Fields of a RequestSpec that its payload does not have."""


def request_from_payload(payload: Any, stored: Any = None, where: str = "payload") -> RequestSpec:
    """The request of a RequestSpecPayload 1.x. `stored`: the RequestSpec object that nova has stored for it.

    FieldError where the payload does not say enough: of hosts that were tried before it has the nodes only.
    """
    data = dict(open_payload(payload, PAYLOAD, where))
    retry = data.get("retry")
    if retry and open_payload(retry, "SchedulerRetriesPayload", f"{where}.retry").get("hosts"):
        raise FieldError(f"{where}.retry", "names nodes that were tried before, and not their hosts")
    for name in ("force_hosts", "force_nodes"):
        if isinstance(data.get(name), str):
            data[name] = [data[name]]
    known = open_envelope(stored, "RequestSpec", "request_specs.spec").data if stored is not None else {}
    gaps = {name: known[name] for name in _NOT_NOTIFIED if name in known}
    if _flavorid(known.get("flavor")) == _flavorid(data.get("flavor")) is not None:
        gaps["flavor"] = known["flavor"]
    held = {name: _as_object(value) for name, value in data.items()}
    return request_from_object(close_envelope("RequestSpec", held | gaps), where)


def _flavorid(flavor: Any) -> Any:
    data = flavor.get(DATA) if is_envelope(flavor) else None
    return data.get("flavorid") if isinstance(data, Mapping) else None


def open_payload(value: Any, name: str, where: str) -> Mapping[str, Any]:
    """The fields of a payload object of this class, of any version; FieldError for anything else."""
    if not is_envelope(value) or value[NAME] != name:
        raise FieldError(where, f"is no {name}")
    data: Mapping[str, Any] = MAPPING.strict(value.get(DATA), f"{where}.{DATA}")
    return data


def _as_object(value: Any) -> Any:
    """The value with payload objects replaced by the objects that they are payloads of; null fields are left out."""
    if isinstance(value, list):
        return [_as_object(each) for each in value]
    if not is_envelope(value):
        return value
    plain = str(value[NAME]).removesuffix(_SUFFIX)
    name = _OBJECT_NAMES.get(plain, plain)
    data = MAPPING.lenient(value.get(DATA), name)
    held = {field: _as_object(each) for field, each in data.items() if each is not None}
    return close_envelope(name, held, VERSIONS.get(name, "1.0"))
