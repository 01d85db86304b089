# SPDX-License-Identifier: Apache-2.0
"""Extra specs of a flavor: list, set several, and show, set and delete one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Response
from pydantic import ConfigDict, Field, RootModel

from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.compute.body_types import Body, MetadataKey, MetadataValue
from roost.api.compute.extra_spec_rules import check_extra_spec
from roost.api.compute.flavors import visible_flavor
from roost.api.microversions import v
from roost.errors import BadInput, UnknownName
from roost.records.flavor_catalogue import delete_extra_spec, merge_extra_specs

CHECKED = v(86)
"""Since when extra specs of namespaces that nova knows are checked."""


class ExtraSpecs(Body):
    """The body that sets extra specs; others of the flavor stay."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"extra_specs": {"hw:cpu_policy": "dedicated"}}]})
    extra_specs: dict[MetadataKey, MetadataValue]


class OneExtraSpec(RootModel[Annotated[dict[MetadataKey, MetadataValue], Field(min_length=1, max_length=1)]]):
    """The body that sets one extra spec: its key, as in the address, and its value."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"hw:cpu_policy": "dedicated"}]})


def list_all(flavor_id: str, call: CurrentCall) -> Response:
    """List the extra specs of a flavor."""
    return answer({"extra_specs": visible_flavor(call, flavor_id).extra_specs})


def merge(flavor_id: str, body: ExtraSpecs, call: CurrentCall) -> Response:
    """Set extra specs of a flavor and leave its others."""
    _save(call, flavor_id, body.extra_specs)
    return answer({"extra_specs": body.extra_specs})


def show(flavor_id: str, key: str, call: CurrentCall) -> Response:
    """Show one extra spec of a flavor."""
    specs = visible_flavor(call, flavor_id).extra_specs
    if key not in specs:
        raise UnknownName(f"Flavor {flavor_id} has no extra specs with key {key}.")
    return answer({key: specs[key]})


def replace(flavor_id: str, key: str, body: OneExtraSpec, call: CurrentCall) -> Response:
    """Set one extra spec of a flavor."""
    if key not in body.root:
        raise BadInput("Request body and URI mismatch")
    _save(call, flavor_id, body.root)
    return answer(body.root)


def remove(flavor_id: str, key: str, call: CurrentCall) -> Response:
    """Delete one extra spec of a flavor."""
    delete_extra_spec(call.parts.engine, flavor_id, key)
    return accepted(200)


def _save(call: Call, flavor_id: str, specs: dict[str, str]) -> None:
    if call.version >= CHECKED:
        for key, value in specs.items():
            check_extra_spec(key, value)
    merge_extra_specs(call.parts.engine, flavor_id, specs)
