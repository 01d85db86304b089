# SPDX-License-Identifier: Apache-2.0
"""Builds the options and requests of a workload; equal seeds give equal requests."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.workload import Requests, Workload

from roost import Flavor, Image, RequestSpec, ServerGroup
from roost.errors import BadInput
from roost.model.image import parse_properties

DATA = Path(__file__).parent / "data"


def scheduler_options(workload: Workload) -> dict[str, dict[str, Any]]:
    """Section -> option -> value: the options of the workload, with its filters and weighers."""
    named = {"enabled_filters": workload.filters, "weight_classes": workload.weighers}
    rules = {option: list(names) for option, names in named.items() if names is not None}
    more = {group: dict(names) for group, names in workload.options.items()}
    return more | {"filter_scheduler": more.get("filter_scheduler", {}) | rules}


def make_requests(requests: Requests, seed: int) -> list[RequestSpec]:
    """The requests of a workload, in order; sizes are drawn with the seed."""
    flavors, weights = zip(*read_sizes(requests), strict=True)
    drawn = random.Random(seed).choices(flavors, weights, k=requests.count)
    request_for = requester(requests)
    return [request_for(flavor) for flavor in drawn]


def requester(requests: Requests) -> Callable[[Flavor], RequestSpec]:
    """A function that builds a new request for a flavor at every call, as clients do."""
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
    """(flavor, number of machines of that size) for each size of the trace."""
    with find_data(requests.sizes, "sizes").open(encoding="utf-8", newline="") as lines:
        return [
            (make_flavor(requests, int(row["vcpus"]), int(row["memory_mb"])), int(row["vms"]))
            for row in csv.DictReader(lines)
        ]


def make_flavor(requests: Requests, vcpus: int, memory_mb: int) -> Flavor:
    """A flavor of this size, with the disk and extra specs of the workload."""
    return Flavor(vcpus, memory_mb, root_gb=requests.root_gb, extra_specs=requests.extra_specs)


def find_data(name: str | None, field: str) -> Path:
    """The path of a file in `data/`. Raises BadInput, naming `field`, where it does not exist."""
    path = DATA / str(name)
    if not path.is_file():
        raise BadInput(f"requests.{field}: there is no file {name} in {DATA.name}/")
    return path
