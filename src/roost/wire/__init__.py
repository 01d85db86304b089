# SPDX-License-Identifier: Apache-2.0
"""nova's objects on the wire: requests in, selections out. Start reading at `requests.py`."""

from roost.wire.dicts import request_from_dicts
from roost.wire.fleet_objects import (
    aggregate_to_object,
    aggregates_from_object,
    instances_from_object,
    instances_to_object,
)
from roost.wire.objects import NovaObjects
from roost.wire.payloads import legacy_payload, versioned_payload
from roost.wire.requests import request_from_object, request_to_object
from roost.wire.selections import (
    Chosen,
    Form,
    form_for,
    mappings_of,
    selection_from_object,
    selection_to_dict,
    selection_to_object,
)

__all__ = [
    "Chosen",
    "Form",
    "NovaObjects",
    "aggregate_to_object",
    "aggregates_from_object",
    "form_for",
    "instances_from_object",
    "instances_to_object",
    "legacy_payload",
    "mappings_of",
    "request_from_dicts",
    "request_from_object",
    "request_to_object",
    "selection_from_object",
    "selection_to_dict",
    "selection_to_object",
    "versioned_payload",
]
