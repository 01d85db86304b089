# SPDX-License-Identifier: Apache-2.0
"""Arguments that commands share: config files, clouds, sizes of instances, requests; a wrong one raises BadInput.

So it is reported in one line like any other error. The size of an instance is a flavor by its name, or its parts.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from roost.errors import BadInput, FieldError
from roost.library import Scheduler
from roost.model import Flavor, RequestSpec
from roost.model.kinds import MOST, WholeNumber
from roost.model.request import with_canonical_uuids
from roost.options.files import files_in
from roost.questions.plan import MOST_INSTANCES, check_hosts, check_zone
from roost.sources.fleet_file import Fleet


def add_config_arguments(parser: Any, what: str = "options") -> None:
    """Add --config-file and --config-dir to a parser or to an argument group; `what` completes the help text."""
    parser.add_argument(
        "--config-file",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help=f"nova.conf-style file with {what}; repeatable, the last one wins",
    )
    parser.add_argument(
        "--config-dir",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="folder whose *.conf are read after the files, sorted by name; repeatable",
    )


def add_cloud_argument(parser: Any) -> None:
    """Add --os-cloud, the name of a cloud whose API is asked, to a parser or to an argument group."""
    parser.add_argument(
        "--os-cloud",
        metavar="NAME",
        help="the API of this cloud of clouds.yaml (default: what OS_CLOUD or OS_AUTH_URL names)",
    )


def add_snapshot_argument(parser: Any, default: str) -> None:
    """Add --from, the file of a snapshot, to a parser or an argument group. `default`: what is read without it."""
    parser.add_argument(
        "--from",
        dest="snapshot",
        metavar="SNAPSHOT",
        help=f"read a file of roost snapshot save; - for stdin (default: {default})",
    )


def config_files(parsed_args: argparse.Namespace) -> list[Path]:
    """The files of --config-file, then the *.conf of --config-dir: the order in which they are read."""
    return [*parsed_args.config_file, *files_in(parsed_args.config_dir)]


def whole_number(least: float = -math.inf, most: float = MOST) -> Callable[[str], int]:
    """A converter for `type=`: text to an integer from `least` to `most`, bounds included."""
    kind = WholeNumber(least, most)

    def parse(text: str) -> int:
        try:
            return kind.strict(int(text), "")
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} {kind.mismatch}") from None
        except FieldError as error:
            raise argparse.ArgumentTypeError(f"{error.problem}: {error.hint}") from None

    return parse


def path_argument(text: str) -> Path:
    """A converter for `type=`: text to a path. An empty one, which would mean the present folder, is refused."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def non_empty(text: str) -> str:
    """A converter for `type=`: the text itself, which must be more than spaces."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    return text


def key_and_value(text: str) -> tuple[str, str]:
    """A converter for `type=`: KEY=VALUE to (key, value), split at the first equals sign."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not KEY=VALUE")
    return key, value


def group_by_key(pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Key -> the values of all pairs with that key, in order."""
    grouped: dict[str, tuple[str, ...]] = {}
    for key, value in pairs:
        grouped[key] = (*grouped.get(key, ()), value)
    return grouped


def add_size_arguments(group: Any, flavor_help: str) -> None:
    """Add --flavor, --vcpus, --ram and --disk to an argument group."""
    amount = whole_number(least=0)
    group.add_argument("--flavor", metavar="NAME", help=flavor_help)
    group.add_argument("--vcpus", type=amount, metavar="N", help="virtual CPUs")
    group.add_argument("--ram", type=amount, metavar="MIB", help="memory, MiB")
    group.add_argument("--disk", type=amount, metavar="GB", help="root disk, GiB (default: 0)")


def check_size(parsed_args: argparse.Namespace) -> None:
    """BadInput unless there is either a flavor, or its parts."""
    parts = {"--vcpus": parsed_args.vcpus, "--ram": parsed_args.ram, "--disk": parsed_args.disk}
    given = [option for option, amount in parts.items() if amount is not None]
    if parsed_args.flavor and given:
        raise BadInput(f"--flavor and {given[0]} contradict each other", "give one or the other")
    if not parsed_args.flavor and not {"--vcpus", "--ram"} <= set(given):
        hint = "give --flavor NAME, or --vcpus N --ram MIB and, if it has one, --disk GB"
        raise BadInput("the size of the instance is missing", hint)


def flavor_parts(parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Fields of a flavor made of --vcpus, --ram and --disk."""
    size = {"vcpus": parsed_args.vcpus, "memory_mb": parsed_args.ram, "root_gb": parsed_args.disk or 0}
    return {"name": "custom", **size}


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
