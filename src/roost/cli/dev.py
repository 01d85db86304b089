# SPDX-License-Identifier: Apache-2.0
"""`roost dev`: a whole cloud in this process, with a demonstration, until Ctrl-C."""

from __future__ import annotations

import argparse
import logging
import os
import random
import shlex
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from roost.api.options import ApiOptions
from roost.api.process import open_listener
from roost.cli.arguments import path_argument, whole_number
from roost.cli.commands import RoostCommand
from roost.cli.output import console
from roost.clock import Clock, SystemClock
from roost.errors import BadInput, ServerFailed
from roost.messages.loopback import VARIABLE, default_state_directory
from roost.scheduler.all_options import read_options
from roost.services.lifecycle import CHECK_INTERVAL_SECONDS, Signals
from roost.services.logs import set_up_logging
from roost.services.options import LogOptions
from roost.trial.fleet import LEAST_COUNT, MOST_COUNT, USUAL_COUNT
from roost.trial.state import StateDirectory, check_writable, temporary_state, write_json

if TYPE_CHECKING:
    from roost.trial.dev_cloud import DevCloud

API_PORT = 8774
"""Port of the API, nova's."""
STOP_SECONDS = 1.0
"""How long running requests get to end after Ctrl-C."""


class Dev(RoostCommand):
    """Run a whole cloud in this process: conductor, scheduler and a fleet of fake hosts, until Ctrl-C.

    It begins with a demonstration. Servers outlive a restart; other terminals reach it with `roost server` and
    `roost host`.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the arguments of the cloud and its state."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--hosts",
            type=whole_number(LEAST_COUNT, MOST_COUNT),
            metavar="N",
            help=f"number of hosts (default: {USUAL_COUNT}, or as many as the state has)",
        )
        parser.add_argument(
            "--state-dir",
            type=path_argument,
            metavar="DIR",
            help="folder of database, guests, socket and log (default: roost/dev in the user's state directory)",
        )
        parser.add_argument(
            "--fresh", action="store_true", help="begin anew: remove the state of an earlier run first"
        )
        parser.add_argument("--once", action="store_true", help="end after the demonstration, and keep no state")
        parser.add_argument(
            "--port",
            type=whole_number(0, 65535),
            metavar="N",
            help="port of the API (default: 8774, and any free one with --once); 0: any free one",
        )
        parser.add_argument(
            "--ready-file",
            type=path_argument,
            metavar="FILE",
            help="write a JSON object with the addresses there when the cloud is ready",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the cloud until a signal stops it, or once.

        Returns exit code 0; with --once ServerFailed where a step of the demonstration failed.
        """
        if parsed_args.once and (parsed_args.state_dir or parsed_args.fresh):
            raise BadInput("--once keeps no state", "leave out --state-dir and --fresh")
        signals = Signals()
        with (
            signals.installed(),
            _files_for_this_user_alone(),
            _lock_state(parsed_args) as state,
            _open_listener(parsed_args) as listener,
        ):
            _prepare(state, parsed_args)
            out = console()
            out.quiet = getattr(self.app_args, "quiet", False)
            with _ready_file(parsed_args.ready_file):
                has_ended, failed_steps = _run(parsed_args, state, listener, signals, out)
        has_failed = parsed_args.once and failed_steps > 0
        if not has_ended:
            logging.shutdown()
            sys.stdout.flush()
            os._exit(1 if has_failed else 0)  # Python's own exit would wait for the threads of abandoned requests
        if has_failed:
            raise _steps_failed(failed_steps)
        return 0


def _steps_failed(count: int) -> ServerFailed:
    steps = "1 step" if count == 1 else f"{count} steps"
    return ServerFailed(f"{steps} of the demonstration failed", "run it without --once to look at what it left")


@contextmanager
def _files_for_this_user_alone() -> Iterator[None]:
    """Context in which new files and folders are closed to other users."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _lock_state(parsed_args: argparse.Namespace) -> Iterator[StateDirectory]:
    """The state directory, locked; what is in it stays until `_prepare`."""
    if parsed_args.once:
        with temporary_state() as state:
            yield state
    else:
        with StateDirectory.lock(parsed_args.state_dir or default_state_directory()) as state:
            yield state


def _prepare(state: StateDirectory, parsed_args: argparse.Namespace) -> None:
    """Check what is left to check, then begin anew where that is wanted: nothing is removed before."""
    if parsed_args.ready_file is not None:
        check_writable(parsed_args.ready_file)
    state.prepare(parsed_args.fresh)
    state.count_hosts(parsed_args.hosts, USUAL_COUNT)


@contextmanager
def _open_listener(parsed_args: argparse.Namespace) -> Iterator[socket.socket]:
    """The socket on which the API will take requests; BadInput where its port is taken."""
    port = parsed_args.port if parsed_args.port is not None else 0 if parsed_args.once else API_PORT
    options = read_options(explicit={"DEFAULT": {"osapi_compute_listen_port": port}}).fill(ApiOptions)
    with open_listener(options) as listener:
        yield listener


@contextmanager
def _ready_file(path: Path | None) -> Iterator[None]:
    """Remove the file of an earlier run, and that of this one at the end."""
    if path is None:
        yield
        return
    path.unlink(missing_ok=True)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _run(
    parsed_args: argparse.Namespace, state: StateDirectory, listener: socket.socket, signals: Signals, out: Console
) -> tuple[bool, int]:
    """Run the cloud; returns whether all requests have ended, and how many steps of the demonstration failed.

    `out`: where the demonstration is shown.
    """
    from roost.trial.demonstration import Demonstration
    from roost.trial.dev_cloud import DevCloud  # loads all services, which takes a second

    set_up_logging(LogOptions(log_file=str(state.new_log_file())), "roost-dev")
    clock = SystemClock()
    randomness = random.Random()  # noqa: S311 - picks among equals; nothing secret
    started = clock.monotonic()
    hosts, usual = parsed_args.hosts, USUAL_COUNT
    cloud = DevCloud(state, hosts, clock=clock, randomness=randomness, usual_hosts=usual, listener=listener)
    failed_steps = 0
    try:
        cloud.start()
        _print_ready(out, cloud, clock.monotonic() - started)
        if parsed_args.ready_file:
            write_json(parsed_args.ready_file, {"pid": os.getpid(), **cloud.facts()})
        if cloud.is_new:
            failed_steps = Demonstration(cloud, out, signals.stop).run()
        if not parsed_args.once and not signals.stop.is_set():
            _print_next_steps(out, cloud)
            _serve(cloud, clock, signals)
    finally:
        has_ended = _stop(cloud, clock, signals)
    if not parsed_args.once:
        _print_stopped(out, state)
    return has_ended, failed_steps


def _serve(cloud: DevCloud, clock: Clock, signals: Signals) -> None:
    """Housekeeping of the services until a signal asks for a stop."""
    while not signals.stop.is_set():
        cloud.look_after()
        clock.wait(signals.stop, CHECK_INTERVAL_SECONDS)


def _stop(cloud: DevCloud, clock: Clock, signals: Signals) -> bool:
    """Stop the cloud; returns False where requests are given up, as they take too long or a second signal came."""
    give_up = clock.monotonic() + STOP_SECONDS
    done = threading.Thread(target=cloud.stop, name="stop", daemon=True)
    done.start()
    while done.is_alive() and not signals.hurry.is_set() and clock.monotonic() < give_up:
        done.join(0.05)
    return not done.is_alive()


def _print_ready(out: Console, cloud: DevCloud, seconds: float) -> None:
    kinds = cloud.fleet.kinds
    zones = Counter(kind.zone for kind in kinds.values())
    parts = ", ".join(f"{count} in {zone}" for zone, count in sorted(zones.items()))
    out.print(f"[bold]A cloud in one process[/bold]: {len(kinds)} hosts ({parts}), ready in {seconds:.1f} s")
    if not cloud.is_new:
        servers = len(cloud.client.list_servers({}))
        begin = cloud.state.fresh_command
        out.print(
            f"It has {servers} servers from before. The demonstration begins anew, without them, with: {begin}",
            soft_wrap=True,
            markup=False,
        )


def _print_next_steps(out: Console, cloud: DevCloud) -> None:
    """One line that it serves, and commands for another terminal."""
    path = cloud.state.path
    variable = "" if path == default_state_directory() else f"{VARIABLE}={shlex.quote(str(path))} "
    roost = f"{variable}{shlex.quote(sys.argv[0])}"
    out.print("\n[bold]Serving until Ctrl-C.[/bold] In another terminal, for example:")
    for command in ("server list", "server create web-9 --flavor web", f"host show {cloud.fleet.disabled}"):
        out.print(f"  [cyan]{roost} {command}[/cyan]", soft_wrap=True)
    clouds = shlex.quote(str(cloud.state.clouds_file))
    openstack = f"OS_CLIENT_CONFIG_FILE={clouds} openstack --os-cloud roost server list"
    out.print(f"  [cyan]{openstack}[/cyan]", soft_wrap=True)
    out.print(f"The API is at {cloud.api.address}, for openstack and everything that speaks Compute v2.1.")


def _print_stopped(out: Console, state: StateDirectory) -> None:
    """Where its servers are now, and how to go on with them or without them."""
    out.print(f"\nStopped. Its servers and its log are in {state.path}.", soft_wrap=True, markup=False)
    out.print(f"The same command goes on with them, {state.fresh_command} begins anew.", soft_wrap=True, markup=False)
