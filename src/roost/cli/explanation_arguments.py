# SPDX-License-Identifier: Apache-2.0
"""Arguments that say which explanation is wanted: of a request, of one host, or a list of rejected hosts."""

from __future__ import annotations

import argparse

from roost.cli.arguments import non_empty
from roost.errors import BadInput


def add_explanation_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --host, --node and --long."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--host",
        type=non_empty,
        metavar="NAME",
        help="everything that stops this host, or why another one is better",
    )
    which.add_argument("--long", action="store_true", help="each rejected host, with the first check that rejects it")
    parser.add_argument("--node", metavar="NAME", help="with --host: which node of a host with several")


def check_explanation_arguments(parsed_args: argparse.Namespace) -> None:
    """BadInput for a node without its host."""
    if parsed_args.node and not parsed_args.host:
        raise BadInput("--node is for --host", "name the host, too: --host NAME --node NAME")
