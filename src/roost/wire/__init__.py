# SPDX-License-Identifier: Apache-2.0
"""The former name of what is in `roost.messages.objects` now; it goes with the release after the next."""

import warnings

from roost.messages.objects.aggregates_instances import (
    aggregate_to_object,
    aggregates_from_object,
    instances_from_object,
    instances_to_object,
)
from roost.messages.objects.flavor_image_group import (
    flavor_from_object,
    flavor_to_object,
    image_from_object,
    image_to_object,
)
from roost.messages.objects.notifications import legacy_payload, open_payload, request_from_payload, versioned_payload
from roost.messages.objects.request import (
    flavor_and_image_from_object,
    hints_and_zone_from_object,
    request_from_object,
    request_to_object,
    request_to_short_object,
)
from roost.messages.objects.selections import (
    ObjectVersions,
    SelectedHost,
    mappings_of,
    selection_from_object,
    selection_to_dict,
    selection_to_object,
    versions_for,
)
from roost.messages.objects.to_objects import NovaObjects, request_from_dicts

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

warnings.warn("roost.wire is called roost.messages.objects now", DeprecationWarning, stacklevel=2)
