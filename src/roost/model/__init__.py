# SPDX-License-Identifier: Apache-2.0
"""The records that the stages of a request exchange: frozen dataclasses, validated on construction."""

from roost.model.aggregate import Aggregate, Service
from roost.model.decision import Candidate, Decision, Ranked, Score, Selection, Step
from roost.model.flavor import Flavor
from roost.model.group import ServerGroup
from roost.model.image import Image
from roost.model.request import Destination, RequestSpec, Retry

__all__ = [
    "Aggregate",
    "Candidate",
    "Decision",
    "Destination",
    "Flavor",
    "Image",
    "Ranked",
    "RequestSpec",
    "Retry",
    "Score",
    "Selection",
    "ServerGroup",
    "Service",
    "Step",
]
