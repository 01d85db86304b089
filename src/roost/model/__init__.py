# SPDX-License-Identifier: Apache-2.0
"""What a request and a decision consist of, and how their fields are checked. Start at `request.py`.

Frozen dataclasses that are validated on construction, and go from one stage of a request to the next.
"""

from roost.model.decision import Candidate, Decision, Ranked, Score, Selection, Step
from roost.model.flavor import Flavor
from roost.model.group import Aggregate, ServerGroup, Service
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
