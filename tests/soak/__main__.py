# SPDX-License-Identifier: Apache-2.0
"""What `make soak` runs: races, moves, crashes and refreshes at full size, one line for each part as it ends.

Exit status: 0 where every promise was kept, 1 at the first that was not, with what was seen.
"""

import argparse
import itertools
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from tests.soak.away import OPTIONS, take_away
from tests.soak.building import build_and_delete
from tests.soak.clients import Figures, Progress
from tests.soak.crashing import kill_clients, kill_servers
from tests.soak.device_race import race_for_devices
from tests.soak.killing import kill_services
from tests.soak.moving import move_together
from tests.soak.outages import lose_acknowledgements, restart_under_load
from tests.soak.racing import race, race_apart
from tests.soak.sequences import run_sequences
from tests.store.following import follow
from tests.store.servers import MariaDB, PostgreSQL, Server

from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade
from roost.trial.plan import POSTGRESQL, RABBITMQ

RACES, REQUESTS, PER_HOST, MEMBERS = 3, 4000, 60, 40
DEVICE_HOSTS, DEVICE_ROUNDS = 10, 8
CLIENT_KILLS, SERVER_KILLS, SERVICE_KILLS = 200, 10, 50
LOSING_STEPS, RESTARTS, REQUESTS_PER_RESTART = 1000, 10, 500
MOVES, SEQUENCES = 150, 200
BUILT_SERVERS, BUILDING_CLIENTS, AGENTS = 2000, 8, 100
FOLLOWING_SECONDS, FOLLOWED_WRITERS = 30, 4
AWAY_SECONDS = (10, 30, 80, 300)


class Part(NamedTuple):
    """Something that is promised, on one database."""

    name: str
    steps: int
    """What its progress counts up to."""
    run: Callable[[Progress], Figures]


class Round:
    """All parts with one seed, each on a database of its own."""

    def __init__(self, servers: dict[str, Server], folder: str, seed: int) -> None:
        self.servers, self.folder, self.seed = servers, folder, seed
        self.numbers = itertools.count(1)

    def create(self, kind: str) -> str:
        """The address of a new, empty database."""
        name = f"soak_{self.seed}_{next(self.numbers)}"
        return f"sqlite:///{self.folder}/{name}.db" if kind == "sqlite" else self.servers[kind].create_database(name)

    def parts(self) -> Iterator[Part]:
        for kind in self.servers:
            for number in range(1, RACES + 1):
                yield Part(f"race {kind} {number}/{RACES}", REQUESTS, partial(self.race, kind, number))
                yield Part(f"anti-affinity {kind} {number}/{RACES}", MEMBERS, partial(self.race_apart, kind, number))
        for kind in (*self.servers, "sqlite"):
            yield Part(f"devices {kind}", DEVICE_ROUNDS, partial(self.race_for_devices, kind))
        for kind in (*self.servers, "sqlite"):
            yield Part(f"clients killed, {kind}", CLIENT_KILLS, partial(self.kill_clients, kind))
        for kind in (*self.servers, "sqlite"):
            yield Part(f"same moves, {kind}", MOVES, partial(self.move_together, kind))
            yield Part(f"sequences, {kind}", SEQUENCES, partial(self.run_sequences, kind))
        for kind in self.servers:
            yield Part(f"server killed, {kind}", SERVER_KILLS, partial(self.kill_servers, kind))
            yield Part(f"acknowledgements lost, {kind}", LOSING_STEPS * 4, partial(self.lose_acknowledgements, kind))
            yield Part(f"server restarted, {kind}", RESTARTS, partial(self.restart_under_load, kind))
        yield Part("refresh postgresql", 1, self.follow)
        for kind in ("postgresql", "sqlite"):
            yield Part(f"servers built, {kind}", BUILT_SERVERS, partial(self.build_servers, kind))
        yield from self.outages()
        yield Part("services killed", SERVICE_KILLS, self.kill_services)

    def race(self, kind: str, number: int, progress: Progress) -> Figures:
        return race(self.create(kind), REQUESTS, PER_HOST, self.seed + number, progress=progress)

    def race_for_devices(self, kind: str, progress: Progress) -> Figures:
        return race_for_devices(self.create(kind), DEVICE_HOSTS, DEVICE_ROUNDS, self.seed, progress=progress)

    def race_apart(self, kind: str, number: int, progress: Progress) -> Figures:
        return race_apart(self.create(kind), MEMBERS, self.seed + number, progress=progress)

    def move_together(self, kind: str, progress: Progress) -> Figures:
        return move_together(self.create(kind), MOVES, self.seed, progress=progress)

    def run_sequences(self, kind: str, progress: Progress) -> Figures:
        return run_sequences(self.create(kind), SEQUENCES, self.seed, progress)

    def kill_clients(self, kind: str, progress: Progress) -> Figures:
        return kill_clients(self.create(kind), CLIENT_KILLS, self.seed, progress)

    def kill_servers(self, kind: str, progress: Progress) -> Figures:
        return kill_servers(self.servers[kind], self.create(kind), SERVER_KILLS, self.seed, progress)

    def kill_services(self, progress: Progress) -> Figures:
        return kill_services(SERVICE_KILLS, self.seed, progress)

    def outages(self) -> Iterator[Part]:
        for times, kind, seconds in itertools.product(OPTIONS, (POSTGRESQL, RABBITMQ), AWAY_SECONDS):
            name = f"{kind} away {seconds} s, {times}"
            yield Part(name, 1, partial(self.take_away, kind, times, seconds))

    def take_away(self, kind: str, times: str, seconds: float, progress: Progress) -> Figures:
        return take_away(kind, times, seconds)

    def lose_acknowledgements(self, kind: str, progress: Progress) -> Figures:
        return lose_acknowledgements(self.servers[kind], self.create(kind), LOSING_STEPS, self.seed, progress)

    def restart_under_load(self, kind: str, progress: Progress) -> Figures:
        requests = RESTARTS * REQUESTS_PER_RESTART
        return restart_under_load(self.servers[kind], self.create(kind), requests, RESTARTS, self.seed, progress)

    def build_servers(self, kind: str, progress: Progress) -> Figures:
        counts = BUILT_SERVERS, BUILDING_CLIENTS, AGENTS
        return build_and_delete(self.create(kind), *counts, self.seed, progress)

    def follow(self, progress: Progress) -> Figures:
        engine = open_engine(DatabaseOptions(connection=self.create("postgresql")))
        upgrade(engine)
        tally = follow(engine, FOLLOWING_SECONDS, FOLLOWED_WRITERS, self.seed)
        engine.dispose()
        progress(1)
        return dict(tally)


def run_part(part: Part, console: Console) -> None:
    """One line with its figures; while it runs, a bar for whoever watches."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    started = time.perf_counter()
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(part.name, total=part.steps)
        figures = part.run(lambda done: bar.update(task, completed=done))
    words = ", ".join(f"{name.replace('_', ' ')} {figure}" for name, figure in figures.items())
    print(f"{part.name}: {words} ({time.perf_counter() - started:.0f} s)", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """All parts, or those whose names begin with one of the given."""
    chosen = make_parser().parse_args(arguments)
    console = Console(stderr=True)
    logging.basicConfig(level=logging.CRITICAL)  # failures are wanted here, and counted
    print(f"seed {chosen.seed}", flush=True)
    with ExitStack() as ends:
        servers: dict[str, Server] = {}
        for kind, start in (("postgresql", PostgreSQL), ("mariadb", MariaDB)):
            servers[kind] = start(is_durable=True)
            ends.callback(servers[kind].stop)
        folder = ends.enter_context(tempfile.TemporaryDirectory())
        for seed in range(chosen.seed, chosen.seed + chosen.n):
            for part in Round(servers, folder, seed).parts():
                if part.name.startswith(tuple(chosen.parts) or ""):
                    try:
                        run_part(part, console)
                    except AssertionError as broken:
                        print(f"{part.name}: BROKEN (seed {seed}): {broken}", file=sys.stderr)
                        return 1
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="how the names of parts begin (default: all)")
    parser.add_argument("-n", type=int, default=1, metavar="ROUNDS", help="all of it so many times (default: 1)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; the next has the next (default: 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
