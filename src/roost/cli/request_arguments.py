# SPDX-License-Identifier: Apache-2.0
"""The arguments that describe a request for instances, of commands that place it or explain it on a fleet."""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.arguments import group_by_key, key_and_value, whole_number
from roost.cli.size_arguments import add_size_arguments, flavor_parts
from roost.library import Scheduler
from roost.model import Flavor, RequestSpec
from roost.model.request import with_canonical_uuids
from roost.questions.plan import MOST_INSTANCES, check_hosts, check_zone
from roost.sources.fleet_file import Fleet


def add_request_arguments(parser: argparse.ArgumentParser, is_to_be_counted: bool = False) -> None:
    """Add --flavor or its parts, and all that a request may say.

    `is_to_be_counted`: the command finds out how many instances fit, so there is no --count, and no size means all.
    """
    default = " (default: every flavor)" if is_to_be_counted else ""
    size = parser.add_argument_group(f"size: a flavor of the fleet, or its parts{default}")
    add_size_arguments(size, "flavor of the fleet file")
    request = parser.add_argument_group("request")
    if is_to_be_counted:
        parser.set_defaults(count=1)
    else:
        _add_count(request)
    _add_request(request)


def _add_count(what: Any) -> None:
    what.add_argument(
        "--count",
        type=whole_number(least=1, most=MOST_INSTANCES),
        default=1,
        metavar="N",
        help="how many instances (default: 1); all are placed, or none",
    )


def _add_request(what: Any) -> None:
    what.add_argument("--image", metavar="NAME", help="image of the fleet file")
    what.add_argument("--availability-zone", metavar="ZONE", help="only hosts of this zone")
    what.add_argument(
        "--hint",
        type=key_and_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="scheduler hint; repeatable",
    )
    what.add_argument("--group", metavar="NAME", help="server group of the fleet file")
    what.add_argument("--project", metavar="ID", help="project that asks")
    what.add_argument("--ignore-host", action="append", metavar="HOST", help="leave out this host; repeatable")
    what.add_argument(
        "--force-host", action="append", metavar="HOST", help="only this host, and ask no filter; repeatable"
    )


def build_request(parsed_args: argparse.Namespace, fleet: Fleet, scheduler: Scheduler) -> RequestSpec:
    """The request that the arguments describe, whose size was checked. UnknownName for a name that is not there."""
    if parsed_args.availability_zone:
        check_zone(parsed_args.availability_zone, fleet, scheduler)
    for option in ("ignore_host", "force_host"):
        check_hosts(getattr(parsed_args, option) or (), fleet)
    return RequestSpec(
        flavor=build_flavor(parsed_args, fleet),
        image=fleet.image(parsed_args.image) if parsed_args.image else None,
        num_instances=parsed_args.count,
        project_id=parsed_args.project,
        availability_zone=parsed_args.availability_zone,
        scheduler_hints=with_canonical_uuids(group_by_key(parsed_args.hint)) if parsed_args.hint else {},
        instance_group=fleet.server_group(parsed_args.group) if parsed_args.group else None,
        ignore_hosts=tuple(parsed_args.ignore_host) if parsed_args.ignore_host else None,
        force_hosts=tuple(parsed_args.force_host) if parsed_args.force_host else None,
    )


def build_flavor(parsed_args: argparse.Namespace, fleet: Fleet) -> Flavor:
    """The flavor of --flavor from the fleet, or one made of --vcpus, --ram and --disk."""
    if parsed_args.flavor:
        return fleet.flavor(parsed_args.flavor)
    return Flavor(**flavor_parts(parsed_args))
