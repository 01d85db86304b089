# SPDX-License-Identifier: Apache-2.0
"""A real nova cloud on one machine, in which a scheduler can be judged: see README.md beside this file."""

import argparse
import json
import sys

from tests.nova_stack.api_client import boot
from tests.nova_stack.audit import audit
from tests.nova_stack.cloud import SIZES, Cloud
from tests.nova_stack.paper_hosts import add_paper_hosts
from tests.nova_stack.processes import ROOT, StackError
from tests.nova_stack.scenario import run_scenario


def make_parser():
    top = argparse.ArgumentParser(prog="python -m tests.nova_stack", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", default=ROOT / "build" / "nova-stack", help="of this cloud (default: %(default)s)")
    up = commands.add_parser("up", help="start the cloud", parents=[common])
    up.add_argument("--computes", type=int, default=20)
    up.add_argument("--scheduler", choices=["nova", "none"], default="nova")
    up.add_argument("--sizes", default=SIZES, help="vcpus,MiB,GB,NUMA cells of the hosts; several, joined with :")
    up.add_argument("--extra", default="", help="more lines for nova.conf")
    up.add_argument("--placement-retries", type=int, default=10, help="allocation_conflict_retry_count of placement")
    commands.add_parser("down", help="end the cloud", parents=[common])
    scheduler = commands.add_parser("scheduler", help="start or end nova-scheduler", parents=[common])
    scheduler.add_argument("use", choices=["nova", "none"])
    hosts = commands.add_parser("hosts", help="add hosts that are rows only", parents=[common])
    hosts.add_argument("count", type=int)
    boots = commands.add_parser("boot", help="create servers and wait", parents=[common])
    boots.add_argument("--count", type=int, default=10)
    boots.add_argument("--flavor", default="1,512,1", help="vcpus,MiB,GB")
    boots.add_argument("--parallel", type=int, default=4)
    boots.add_argument("--batch", type=int, default=1, help="servers per request")
    commands.add_parser("audit", help="compare placement with the instances", parents=[common])
    scenario = commands.add_parser("scenario", help="everything for which nova asks a scheduler", parents=[common])
    scenario.add_argument("--only", default="", help="steps to run, by comma")
    return top


def run_command(asked):
    """What the command found, as a dict; None for `down`."""
    cloud = Cloud(asked.dir)
    actions = {
        "up": lambda: cloud.up(asked.computes, asked.scheduler, asked.sizes, asked.extra, asked.placement_retries),
        "down": cloud.down,
        "scheduler": lambda: cloud.set_scheduler(asked.use),
        "hosts": lambda: add_paper_hosts(cloud, asked.count),
        "boot": lambda: boot(cloud, asked.count, asked.flavor, asked.parallel, asked.batch),
        "audit": lambda: audit(cloud),
        "scenario": lambda: run_scenario(cloud, asked.only),
    }
    return actions[asked.command]()


def main():
    try:
        result = run_command(make_parser().parse_args())
    except StackError as error:
        print(error, file=sys.stderr)
        return 2
    if result is None:
        return 0
    print(json.dumps(result, indent=1, default=str))
    return 0 if result.get("ok", True) else 1


if __name__ == "__main__":
    sys.exit(main())
