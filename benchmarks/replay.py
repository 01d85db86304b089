# SPDX-License-Identifier: Apache-2.0
"""`python benchmarks/replay.py [POLICY ...]`: how many hosts does a policy need for 3.5 days of a real cloud?

Creates and deletes of a public trace go one by one through the real pipeline, on equal hosts without overcommit. A
packing policy gets more hosts than it needs, and those that ever had a machine are counted. A spreading policy uses
all hosts: for it, the smallest fleet that rejects no machine is searched for.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from roost.errors import BadInput, NoValidHost, nearest
from roost.filters.compute import ComputeFilter
from roost.hosts import HostRecord, HostTable
from roost.model import Flavor, RequestSpec
from roost.scheduler.pipeline import Pipeline
from roost.weighers.base import Weigher
from roost.weighers.cpu import CPUWeigher
from roost.weighers.num_instances import NumInstancesWeigher
from roost.weighers.packing import BalanceWeigher, BestFitWeigher, StackWeigher
from roost.weighers.ram import RAMWeigher

TRACE = Path(__file__).parent / "data" / "azure_v1_events.csv.gz"
HOSTS_AT_HAND = 1400
_SHOWN_EVERY = 1000


class Event(NamedTuple):
    """Creation or deletion of a machine; a deletion has no size."""

    creates: bool
    vm_id: int
    vcpus: int = 0
    memory_mb: int = 0


class Size(NamedTuple):
    """Capacity of a host; all hosts are equal."""

    vcpus: int = 64
    memory_mb: int = 192 * 1024


@dataclass(frozen=True)
class Policy:
    """A placement policy: weighers with their multipliers."""

    name: str
    weighers: Mapping[type[Weigher], float] = field(default_factory=dict)
    spreads_over: int = 0
    """For a spreading policy, the number of hosts with which the search starts; 0: the policy packs."""

    def pipeline(self) -> Pipeline:
        """A new pipeline of this policy; the first of equal hosts wins tie-breaks."""
        weighers = [each(each.Options(multiplier)) for each, multiplier in self.weighers.items()]
        return Pipeline([ComputeFilter()], weighers)


POLICIES = (
    Policy("spread", {RAMWeigher: 1.0}, spreads_over=816),
    Policy("first-fit"),
    Policy("most-instances", {NumInstancesWeigher: 1.0}),
    Policy("least-ram", {RAMWeigher: -1.0}),
    Policy("least-ram-and-cpu", {RAMWeigher: -1.0, CPUWeigher: -1.0}),
    Policy("best-fit", {BestFitWeigher: 1.0}),
    Policy("stack", {StackWeigher: 1.0}),
    Policy("balance", {BalanceWeigher: 1.0}),
    Policy("most-instances+balance", {NumInstancesWeigher: 1.0, BalanceWeigher: 1.0}),
    Policy("least-ram+balance", {RAMWeigher: -1.0, BalanceWeigher: 1.0}),
    Policy("stack+balance", {StackWeigher: 1.0, BalanceWeigher: 1.0}),
    Policy("best-fit+balance", {BestFitWeigher: 1.0, BalanceWeigher: 1.0}),
)


@dataclass(frozen=True)
class Outcome:
    """Totals of one replay."""

    hosts_used: int
    rejected: int
    decisions: int
    seconds: float
    placements: str
    """Digest of the hosts of all machines: equal for equal placements."""


@dataclass(frozen=True)
class Result:
    """The result of one policy, a row of the output."""

    policy: str
    weighers: dict[str, float]
    hosts: int
    """Hosts that a packing policy ever used, or the fewest that a spreading one needs."""
    share_of_bound: float
    decisions_per_second: float
    seconds: float
    """CPU time of the replay that gave the number of hosts."""
    placements: str


def read_events(path: Path = TRACE) -> list[Event]:
    """All events of a trace, in order."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines)
        next(rows)
        return [
            Event(True, int(vm_id), int(vcpus), int(memory_mb)) if op == "create" else Event(False, int(vm_id))
            for _, op, vm_id, vcpus, memory_mb in rows
        ]


def lower_bound(events: Iterable[Event], size: Size) -> int:
    """Hosts that any policy needs: the peak of CPUs or memory in use, rounded up to whole hosts."""
    running: dict[int, Event] = {}
    vcpus = memory_mb = most = 0
    for event in events:
        sign, machine = (
            (1, running.setdefault(event.vm_id, event)) if event.creates else (-1, running.pop(event.vm_id))
        )
        vcpus, memory_mb = vcpus + sign * machine.vcpus, memory_mb + sign * machine.memory_mb
        most = max(most, -(-vcpus // size.vcpus), -(-memory_mb // size.memory_mb))
    return most


def make_table(count: int, size: Size) -> HostTable:
    """A table of equal, empty hosts without overcommit."""
    record = HostRecord("any", vcpus_total=size.vcpus, total_usable_ram_mb=size.memory_mb, cpu_allocation_ratio=1.0)
    names = [f"host{number:05d}" for number in range(count)]
    return HostTable.of_runs([(record, [(name, name) for name in names])])


@cache
def request_for(vcpus: int, memory_mb: int) -> RequestSpec:
    """The request for a machine of this size, without disk, which the trace lacks."""
    return RequestSpec(flavor=Flavor(vcpus, memory_mb))


class Replay:
    """State of the replay of one policy on one fleet."""

    def __init__(self, policy: Policy, hosts: int, size: Size) -> None:
        self.pipeline = policy.pipeline()
        self.table = make_table(hosts, size)
        self.randomness = random.Random(0)
        self.held: dict[int, tuple[int, RequestSpec]] = {}
        self.used: set[int] = set()
        self.decisions = self.rejected = 0
        self.digest = hashlib.sha256()

    def run(
        self,
        events: Sequence[Event],
        gives_up: bool = False,
        advance: Callable[[int], None] = lambda done: None,
        clock: Callable[[], int] = time.thread_time_ns,
    ) -> Outcome:
        """Replay the events. `gives_up`: stop at the first rejected machine."""
        started = clock()
        for at, event in enumerate(events, start=1):
            if event.creates:
                self.create(event)
            elif event.vm_id in self.held:
                self.table.release(*self.held.pop(event.vm_id))
            if at % _SHOWN_EVERY == 0:
                advance(_SHOWN_EVERY)
            if self.rejected and gives_up:
                break
        seconds = (clock() - started) / 1e9
        return Outcome(len(self.used), self.rejected, self.decisions, seconds, self.digest.hexdigest()[:16])

    def create(self, event: Event) -> None:
        """Place one machine, or count it as rejected."""
        self.decisions += 1
        spec, uuid = request_for(event.vcpus, event.memory_mb), f"vm{event.vm_id}"
        try:
            decision = self.pipeline.place(
                self.table, spec, [uuid], randomness=self.randomness, clock=time.perf_counter_ns
            )
        except NoValidHost:
            self.rejected += 1
            return
        [selection] = decision.selections
        row = self.table.find_row((selection.host, selection.node))
        self.held[event.vm_id] = row, self.table.finish_build(row, selection.placed)
        self.used.add(row)
        self.digest.update(b"%d %d\n" % (event.vm_id, row))


def replay(events: Sequence[Event], policy: Policy, hosts: int, size: Size, gives_up: bool = False) -> Outcome:
    """Run one replay, with a progress bar if stderr is a terminal."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task(f"{policy.name}, {hosts} hosts", total=len(events))
        return Replay(policy, hosts, size).run(events, gives_up, lambda done: bar.advance(task, done))


def fewest_hosts(events: Sequence[Event], policy: Policy, most: int, size: Size) -> tuple[int, Outcome]:
    """The fewest hosts that reject no machine: tries the guess and one less, then a binary search."""
    least, found = lower_bound(events, size), None
    guesses = [policy.spreads_over, policy.spreads_over - 1]
    while least < most or (least == most and found is None):
        guesses = [guess for guess in guesses if least <= guess < most]
        count = guesses.pop(0) if guesses else (least + most) // 2
        outcome = replay(events, policy, count, size, gives_up=True)
        if outcome.rejected:
            least = count + 1
        else:
            most, found = count, outcome
    if found is None:
        raise too_few(policy, most)
    return most, found


def too_few(policy: Policy, hosts: int) -> BadInput:
    return BadInput(f"{policy.name}: {hosts} hosts are too few for this trace", "give it more with --hosts")


def measure(events: Sequence[Event], policy: Policy, hosts: int, size: Size) -> Result:
    """The number of hosts that a policy needs, and the time of its replay."""
    if policy.spreads_over:
        needed, outcome = fewest_hosts(events, policy, hosts, size)
    else:
        outcome = replay(events, policy, hosts, size)
        needed = outcome.hosts_used
        if outcome.rejected:
            raise too_few(policy, hosts)
    return Result(
        policy=policy.name,
        weighers={each.__name__: multiplier for each, multiplier in policy.weighers.items()},
        hosts=needed,
        share_of_bound=round(needed / lower_bound(events, size), 4),
        decisions_per_second=round(outcome.decisions / max(outcome.seconds, 1e-9)),
        seconds=round(outcome.seconds, 1),
        placements=outcome.placements,
    )


def as_document(events: Sequence[Event], size: Size, results: Iterable[Result]) -> dict[str, Any]:
    """The output as JSON data, whose keys are stable."""
    creates = sum(event.creates for event in events)
    return {
        "creates": creates,
        "deletes": len(events) - creates,
        "host": size._asdict(),
        "bound": lower_bound(events, size),
        "policies": [asdict(each) for each in results],
    }


def as_table(document: Mapping[str, Any]) -> Table:
    title = (
        f"{document['creates']:,} creates, {document['deletes']:,} deletes; no fewer than {document['bound']} hosts"
    )
    table = Table(title=title)
    for name in ("policy", "weighers"):
        table.add_column(name)
    for name in ("hosts", "of the bound", "decisions/s", "seconds"):
        table.add_column(name, justify="right")
    for each in document["policies"]:
        weighers = ", ".join(f"{name} {multiplier:g}" for name, multiplier in each["weighers"].items())
        numbers = f"{each['share_of_bound']:.1%}", f"{each['decisions_per_second']:,}", f"{each['seconds']:.1f}"
        table.add_row(each["policy"], weighers or "none", str(each["hosts"]), *numbers)
    return table


def choose(names: Sequence[str]) -> list[Policy]:
    """The named policies; all where no name is given. Raises BadInput for an unknown name."""
    known = {each.name: each for each in POLICIES}
    for name in names:
        if name not in known:
            raise BadInput(f"there is no policy {name}", nearest(name, known))
    return [known[name] for name in names] or list(POLICIES)


def read_size(text: str) -> Size:
    """Parse `64x192`: vCPUs and GiB of a host."""
    vcpus, _, memory_gib = text.partition("x")
    return Size(int(vcpus), 1024 * int(memory_gib))


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/replay.py", description="Replay a trace through the pipeline.")
    known = ", ".join(each.name for each in POLICIES)
    parser.add_argument("policies", nargs="*", metavar="POLICY", help=f"default: all of {known}")
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    parser.add_argument("--hosts", type=int, default=HOSTS_AT_HAND, help="hosts at hand (default: %(default)s)")
    parser.add_argument(
        "--size", type=read_size, default="64x192", help="vCPUs and GiB of a host (default: %(default)s)"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str], trace: Path = TRACE) -> int:
    """Replay the trace and print the results. Returns 0, or 2 for invalid input."""
    parsed = parse_arguments(arguments)
    try:
        policies, events = choose(parsed.policies), read_events(trace)
        results = [measure(events, each, parsed.hosts, parsed.size) for each in policies]
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    document = as_document(events, parsed.size, results)
    if parsed.format == "json":
        print(json.dumps(document, indent=2))
    else:
        Console().print(as_table(document))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
