# SPDX-License-Identifier: Apache-2.0
"""Roost beside the real nova, from PyPI: `make interop`, or `make interop PART=speed`.

Prints what was looked at, a line each, and figures as tables. Exit status: 1 where something is wrong.
"""

import argparse
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.interop import (
    boots,
    changeover,
    faults,
    keystone_tokens,
    kills,
    nested,
    operator_commands,
    own_cloud,
    races,
    readonly,
    same,
    scenario,
    speed,
    spread,
    vms,
)
from tests.interop.checks import Checks
from tests.nova_stack.processes import ROOT

FOLDER = ROOT / "build" / "interop"


class Part(NamedTuple):
    """Something that is shown, on servers of its own."""

    summary: str
    run: Callable[[Checks, Path], None]


PARTS = {
    "client": Part("nova's client asks Roost in a cloud of its own", own_cloud.run_client),
    "openstack": Part("python-openstackclient against roost dev and a cluster", operator_commands.run),
    "keystone": Part("tokens of a real Keystone", keystone_tokens.run),
    "scenario": Part("27 steps through nova's API", scenario.run),
    "changeover": Part("from nova-scheduler to Roost and back, while servers are booted", changeover.run),
    "same": Part("different requests, put to Roost in shadow mode and to nova-scheduler", same.run),
    "speed": Part("select_destinations, nova-scheduler and Roost", speed.run),
    "spread": Part("separate boots at the same time", spread.run),
    "races": Part("several schedulers and room for exactly N servers", races.run),
    "kills": Part("schedulers are killed under load", kills.run),
    "nested": Part("GPUs of child providers, decisions in a state folder", nested.run),
    "faults": Part("placement and a cell's database fail and come back", faults.run),
    "vms": Part("real virtual machines on three hosts with libvirt", vms.run),
    "boots": Part("servers from request to ACTIVE, by nova and by Roost's own cloud", boots.run),
    "readonly": Part("a database user that may only SELECT", readonly.run),
}


def main(arguments=None):
    """All parts, or those that are named."""
    chosen = make_parser().parse_args(arguments)
    checks = Checks()
    for name in chosen.parts or PARTS:
        run_part(name, checks, chosen.dir / name)
    print("interop: all checks are ok" if not checks.failed else "interop: FAILED")
    return 1 if checks.failed else 0


def run_part(name, checks, folder):
    """A part in an empty folder; an error counts as a check that failed."""
    print(f"\n{name}: {PARTS[name].summary}", flush=True)
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        PARTS[name].run(checks, folder)
    except Exception as error:
        traceback.print_exc()
        checks.see(f"{name} runs to its end", False, f"{type(error).__name__}: {error}; logs are in {folder}")
    print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)


def part_name(text):
    """The name of a part; `choices` of argparse would refuse that none is named."""
    if text not in PARTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no part: {', '.join(PARTS)}")
    return text


def make_parser():
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", type=part_name, help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument(
        "--dir", type=Path, default=FOLDER, help="for configuration, data and logs (default: %(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
