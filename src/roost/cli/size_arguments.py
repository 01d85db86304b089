# SPDX-License-Identifier: Apache-2.0
"""The arguments that give the size of an instance: a flavor by its name, or its parts."""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.arguments import whole_number
from roost.errors import BadInput


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
