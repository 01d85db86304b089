# SPDX-License-Identifier: Apache-2.0
"""`python benchmarks/replay.py [POLICY ...]`: how many hosts does a policy need for 3.5 days of a real cloud?

Creates and deletes of a public trace go one by one through the real pipeline, on equal hosts without overcommit. A
policy that packs is given more hosts than it needs, and those that ever held a machine are counted. One that spreads
uses all it is given: for it the fewest hosts are searched for with which no machine is turned away.
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
from roost.weighers.balance import BalanceWeigher
from roost.weighers.base import Weigher
from roost.weighers.best_fit import BestFitWeigher
from roost.weighers.cpu import CPUWeigher
from roost.weighers.num_instances import NumInstancesWeigher
from roost.weighers.ram import RAMWeigher
from roost.weighers.stack import StackWeigher

TRACE = Path(__file__).parent / "data" / "azure_v1_events.csv.gz"
HOSTS_AT_HAND = 1400
_SHOWN_EVERY = 1000


class Event(NamedTuple):
    """A machine comes, or goes; one that goes has no size."""

    creates: bool
    vm_id: int
    vcpus: int = 0
    memory_mb: int = 0


class Size(NamedTuple):
    """What each of the equal hosts has."""

    vcpus: int = 64
    memory_mb: int = 192 * 1024


@dataclass(frozen=True)
class Policy:
    """Weighers with their multipliers."""

    name: str
    weighers: Mapping[type[Weigher], float] = field(default_factory=dict)
    spreads_over: int = 0
    """For one that spreads, the number of hosts to try first: a good guess saves time. 0: it packs."""

    def pipeline(self) -> Pipeline:
        """A fresh one; of hosts that are equally good it takes the first."""
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
    """What one replay came to."""

    hosts_used: int
    rejected: int
    decisions: int
    seconds: float
    placements: str
    """Digest of who went where: equal for equal placements."""


@dataclass(frozen=True)
class Result:
    """One line of the answer."""

    policy: str
    weighers: dict[str, float]
    hosts: int
    """Ever used by a policy that packs, needed by one that spreads."""
    share_of_bound: float
    decisions_per_second: float
    seconds: float
    """CPU time of the replay that gave the number of hosts."""
    placements: str


def read_events(path: Path = TRACE) -> list[Event]:
    """The trace, in its order."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines)
        next(rows)
        return [
            Event(True, int(vm_id), int(vcpus), int(memory_mb)) if op == "create" else Event(False, int(vm_id))
            for _, op, vm_id, vcpus, memory_mb in rows
        ]


def lower_bound(events: Iterable[Event], size: Size) -> int:
    """No policy needs fewer hosts: the most CPUs, or memory, that ran at one time, in whole hosts."""
    held: dict[int, Event] = {}
    vcpus = memory_mb = most = 0
    for event in events:
        sign, machine = (1, held.setdefault(event.vm_id, event)) if event.creates else (-1, held.pop(event.vm_id))
        vcpus, memory_mb = vcpus + sign * machine.vcpus, memory_mb + sign * machine.memory_mb
        most = max(most, -(-vcpus // size.vcpus), -(-memory_mb // size.memory_mb))
    return most


def make_table(count: int, size: Size) -> HostTable:
    """Equal hosts, empty, no overcommit."""
    record = HostRecord("any", vcpus_total=size.vcpus, total_usable_ram_mb=size.memory_mb, cpu_allocation_ratio=1.0)
    names = [f"host{number:05d}" for number in range(count)]
    return HostTable.of_runs([(record, [(name, name) for name in names])])


@cache
def request_for(vcpus: int, memory_mb: int) -> RequestSpec:
    """The request for a machine of this size. The trace says nothing of disks."""
    return RequestSpec(flavor=Flavor(vcpus, memory_mb))


class Replay:
    """One policy on one fleet: what it placed, and where."""

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
        """All events, one by one. `gives_up`: at the first machine that is turned away."""
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
        """Place one machine, or count it as turned away."""
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
        self.held[event.vm_id] = row, selection.placed
        self.used.add(row)
        self.digest.update(b"%d %d\n" % (event.vm_id, row))


def replay(events: Sequence[Event], policy: Policy, hosts: int, size: Size, gives_up: bool = False) -> Outcome:
    """One replay, with a progress bar where somebody watches."""
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
    """As few hosts as turn no machine away: the guess and one less, then halving what is left of the range."""
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
    """The number of hosts that a policy needs, and what the replay cost."""
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
    """The answer as data: keys are a promise."""
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
    """The policies of these names; all without a name."""
    known = {each.name: each for each in POLICIES}
    for name in names:
        if name not in known:
            raise BadInput(f"there is no policy {name}", nearest(name, known))
    return [known[name] for name in names] or list(POLICIES)


def read_size(text: str) -> Size:
    """`64x192`: vCPUs and GiB."""
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
    """0, or 2 where nothing could be run."""
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
