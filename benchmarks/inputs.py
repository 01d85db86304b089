# SPDX-License-Identifier: Apache-2.0
"""From a workload to what the scheduler is given besides its fleet: options and requests. Same seed, same input."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.workload import Requests, Workload

from roost import Flavor, Image, RequestSpec, ServerGroup
from roost.errors import BadInput
from roost.model.image_properties import parse_properties

DATA = Path(__file__).parent / "data"


def scheduler_options(workload: Workload) -> dict[str, dict[str, Any]]:
    """The rules that the workload names, under nova's option names."""
    named = {"enabled_filters": workload.filters, "weight_classes": workload.weighers}
    rules = {option: list(names) for option, names in named.items() if names is not None}
    more = {group: dict(names) for group, names in workload.options.items()}
    return more | {"filter_scheduler": more.get("filter_scheduler", {}) | rules}


def make_requests(requests: Requests, seed: int) -> list[RequestSpec]:
    """The requests in their order."""
    flavors, weights = zip(*read_sizes(requests), strict=True)
    drawn = random.Random(seed).choices(flavors, weights, k=requests.count)
    request_for = requester(requests)
    return [request_for(flavor) for flavor in drawn]


def requester(requests: Requests) -> Callable[[Flavor], RequestSpec]:
    """Makes the request for a size: a new one each time, as in life."""
    image = None if requests.image is None else Image(id="image", properties=parse_properties(requests.image))
    group = ServerGroup(requests.group, "group") if requests.group else None
    return lambda flavor: RequestSpec(
        flavor=flavor,
        image=image,
        num_instances=requests.instances,
        project_id=requests.project,
        availability_zone=requests.zone,
        instance_group=group,
    )


def read_sizes(requests: Requests) -> list[tuple[Flavor, int]]:
    """Each size, with the number of machines that had it."""
    with find_data(requests.sizes, "sizes").open(encoding="utf-8", newline="") as lines:
        return [
            (make_flavor(requests, int(row["vcpus"]), int(row["memory_mb"])), int(row["vms"]))
            for row in csv.DictReader(lines)
        ]


def make_flavor(requests: Requests, vcpus: int, memory_mb: int) -> Flavor:
    """A size, with what the workload adds to all of them."""
    return Flavor(vcpus, memory_mb, root_gb=requests.root_gb, extra_specs=requests.extra_specs)


def find_data(name: str | None, field: str) -> Path:
    """A file in `data/`; BadInput where there is none."""
    path = DATA / str(name)
    if not path.is_file():
        raise BadInput(f"requests.{field}: there is no file {name} in {DATA.name}/")
    return path
