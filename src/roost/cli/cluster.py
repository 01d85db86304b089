# SPDX-License-Identifier: Apache-2.0
"""`roost cluster ...`: a whole cloud on this machine, a process each, for trials and tests; no systemd needed."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from roost.cli.arguments import path_argument, whole_number
from roost.cli.commands import RoostCommand
from roost.cli.output import Report, ReportCommand, console, titled
from roost.clock import SystemClock
from roost.errors import BadInput
from roost.trial.cluster import RUNNING, START_SECONDS, STOP_SECONDS, ClusterControl
from roost.trial.plan import FAKE, LIBVIRT, ClusterPlan, ClusterShape
from roost.trial.state import StateFolder, default_state_folder

COLUMNS = titled("Process", "Pid", "State", "Ready", "Address", "Since", "Log")
SOMETHING_IS_DOWN = 1
"""Exit code of `cluster status` if a process does not run or is not ready."""


class ClusterCommand(RoostCommand):
    """Base class of commands that change the processes of a cluster and tell about each of them."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with --state-dir."""
        parser = super().get_parser(prog_name)
        add_state_dir(parser)
        return parser

    def control(self, parsed_args: argparse.Namespace) -> ClusterControl:
        """The cluster of --state-dir; each step is a line on stderr, unless --quiet."""
        out = console(stderr=True)

        def tell(line: str) -> None:
            if not getattr(self.app_args, "quiet", False):
                out.print(line, markup=False, soft_wrap=True)

        return ClusterControl(StateFolder(parsed_args.state_dir), SystemClock(), tell)


class ClusterStart(ClusterCommand):
    """Start a cloud on this machine: PostgreSQL, RabbitMQ, conductors, schedulers, agents, an API; a process each.

    Comes back when all are ready; they run on until `roost cluster stop`. Data stay in the folder for the next start.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the shape of the cluster."""
        parser = super().get_parser(prog_name)
        usual = ClusterShape()
        some = whole_number(1, 10_000)
        parser.add_argument("--conductors", type=some, default=usual.conductors, metavar="N", help="(default: 2)")
        parser.add_argument("--schedulers", type=some, default=usual.schedulers, metavar="N", help="(default: 2)")
        parser.add_argument(
            "--agents", type=some, default=usual.agents, metavar="N", help="fake hosts, an agent each (default: 10)"
        )
        parser.add_argument(
            "--processes",
            type=some,
            default=usual.processes,
            metavar="N",
            help="processes of the agents (default: 1)",
        )
        parser.add_argument(
            "--apis",
            type=whole_number(0, 1_000),
            default=usual.apis,
            metavar="N",
            help="APIs, each on a port of its own (default: 1)",
        )
        parser.add_argument(
            "--driver", choices=(FAKE, LIBVIRT), default=FAKE, help="hypervisor of the agents (default: fake)"
        )
        parser.add_argument(
            "--uri",
            action="append",
            default=[],
            metavar="URI",
            help="connection URI of a libvirt daemon, with --driver libvirt; repeatable, an agent each",
        )
        parser.add_argument("--database", default="", metavar="URL", help="use this database; none is started")
        parser.add_argument("--broker", default="", metavar="URL", help="use this broker; none is started")
        parser.add_argument(
            "--config-file",
            action="append",
            default=[],
            type=Path,
            metavar="FILE",
            help="nova.conf-style file with more options for all services; repeatable, the last one wins",
        )
        parser.add_argument("--fresh", action="store_true", help="delete what an earlier cluster left in the folder")
        add_timeout(parser, START_SECONDS, "for all processes to become ready")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Start all processes, say what to type next, and return exit code 0."""
        plan = self.control(parsed_args).start(
            shape_of(parsed_args), is_fresh=parsed_args.fresh, seconds=float(parsed_args.timeout)
        )
        if not getattr(self.app_args, "quiet", False):
            sys.stdout.write(f"the cloud runs: {len(plan.processes)} processes\n")
            sys.stdout.writelines(f"  {line}\n" for line in what_to_type(plan))
        return 0


class ClusterStop(ClusterCommand):
    """Stop all processes of the cluster: APIs and agents first, the database last. Data stay for the next start."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with --timeout."""
        parser = super().get_parser(prog_name)
        add_timeout(parser, STOP_SECONDS, "for processes of a kind to end, before they are killed")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Stop all processes; returns exit code 0, also if none ran."""
        self.control(parsed_args).stop(float(parsed_args.timeout))
        return 0


class ClusterRestart(ClusterCommand):
    """Stop processes of the cluster, start them again, and wait until they are ready."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the names."""
        parser = super().get_parser(prog_name)
        parser.add_argument("name", nargs="+", metavar="NAME", help="as `roost cluster status` shows it: conductor-1")
        add_timeout(parser, START_SECONDS, "for the processes to become ready")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Restart the named processes; returns exit code 0."""
        self.control(parsed_args).restart(set(parsed_args.name), float(parsed_args.timeout))
        return 0


class ClusterStatus(ReportCommand):
    """Show the processes of the cluster: which run, since when, and whether they are ready."""

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --state-dir."""
        add_state_dir(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The processes, and exit code 0 if all of them run and are ready."""
        found = ClusterControl(StateFolder(parsed_args.state_dir), SystemClock()).status()
        records = [
            {
                "process": each.name,
                "pid": each.pid,
                "state": each.state,
                "ready": each.state == RUNNING and not each.unready,
                "reason": each.unready,
                "address": each.address or None,
                "since": each.since.isoformat(timespec="seconds") if each.since else None,
                "log": each.log,
            }
            for each in found
        ]
        rows = [
            (
                each["process"],
                each["pid"] or "-",
                each["state"],
                "yes" if each["ready"] else f"no: {each['reason']}",
                each["address"] or "-",
                each["since"] or "-",
                each["log"],
            )
            for each in records
        ]
        is_up = all(each["ready"] for each in records)
        return Report(records, tuple(COLUMNS), rows), 0 if is_up else SOMETHING_IS_DOWN


def add_state_dir(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the folder of the cluster."""
    parser.add_argument(
        "--state-dir",
        type=path_argument,
        default=default_state_folder(),
        metavar="DIR",
        help="folder of the cluster (default: roost/cluster in the user's folder for state)",
    )


def add_timeout(parser: argparse.ArgumentParser, seconds: float, what: str) -> None:
    """Add --timeout; `what` completes the help text."""
    parser.add_argument(
        "--timeout",
        type=whole_number(1, 86_400),
        default=int(seconds),
        metavar="SECONDS",
        help=f"{what} (default: {seconds:.0f})",
    )


def what_to_type(plan: ClusterPlan) -> Iterator[str]:
    """Commands with which to begin, in a cluster that runs."""
    config = f"--config-file {shlex.quote(str(plan.folder.config))}"
    yield f"roost host list {config}"
    yield f"roost server create first --flavor m1.tiny --image cirros {config}"
    yield f"roost server list {config}"
    if plan.api_address:
        clouds = shlex.quote(str(plan.folder.clouds_file))
        yield f"OS_CLIENT_CONFIG_FILE={clouds} openstack --os-cloud roost server list"
    yield plan.folder.command("status")
    yield plan.folder.command("stop")


def shape_of(parsed_args: argparse.Namespace) -> ClusterShape:
    """The cluster that the arguments describe. BadInput if they contradict one another."""
    if parsed_args.driver == LIBVIRT and not parsed_args.uri:
        raise BadInput("--driver libvirt needs the address of at least one daemon", "add --uri qemu:///system")
    if parsed_args.uri and parsed_args.driver != LIBVIRT:
        raise BadInput("--uri is for libvirt", "add --driver libvirt")
    return ClusterShape(
        conductors=parsed_args.conductors,
        schedulers=parsed_args.schedulers,
        agents=parsed_args.agents,
        processes=parsed_args.processes,
        apis=parsed_args.apis,
        uris=tuple(parsed_args.uri),
        database=parsed_args.database,
        broker=parsed_args.broker,
        config_files=tuple(parsed_args.config_file),
    )
