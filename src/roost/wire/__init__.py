# SPDX-License-Identifier: Apache-2.0
"""Conversion between records and nova's versioned objects in messages. Start reading at `request_spec.py`."""

from roost.wire.aggregates_instances import (
    aggregate_to_object,
    aggregates_from_object,
    instances_from_object,
    instances_to_object,
)
from roost.wire.flavor_image_group import flavor_from_object, flavor_to_object, image_from_object, image_to_object
from roost.wire.legacy import request_from_dicts
from roost.wire.notification_payloads import legacy_payload, versioned_payload
from roost.wire.notified_requests import open_payload, request_from_payload
from roost.wire.request_spec import (
    flavor_and_image_from_object,
    hints_and_zone_from_object,
    request_from_object,
    request_to_object,
    request_to_short_object,
)
from roost.wire.selections import (
    ObjectVersions,
    SelectedHost,
    mappings_of,
    selection_from_object,
    selection_to_dict,
    selection_to_object,
    versions_for,
)
from roost.wire.to_objects import NovaObjects

__all__ = [
    "NovaObjects",
    "ObjectVersions",
    "SelectedHost",
    "aggregate_to_object",
    "aggregates_from_object",
    "flavor_and_image_from_object",
    "flavor_from_object",
    "flavor_to_object",
    "hints_and_zone_from_object",
    "image_from_object",
    "image_to_object",
    "instances_from_object",
    "instances_to_object",
    "legacy_payload",
    "mappings_of",
    "open_payload",
    "request_from_dicts",
    "request_from_object",
    "request_from_payload",
    "request_to_object",
    "request_to_short_object",
    "selection_from_object",
    "selection_to_dict",
    "selection_to_object",
    "versioned_payload",
    "versions_for",
]
