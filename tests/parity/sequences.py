# SPDX-License-Identifier: Apache-2.0
"""Random sequences of everything that happens to a fleet, on one pipeline that may keep what it likes in between.

After every step the answers are compared with those of a new pipeline on a copy of the table, and with the plain
loops. `python -m tests.parity.sequences -n 2000 --steps 100 --seed 1` is a long run; a sequence that goes wrong is
repeated alone with its seed and `-n 1`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console
from rich.progress import track
from tests.engines import EAGER, FULL_SCAN
from tests.parity.answers import (
    Answer,
    Difference,
    Request,
    ask,
    compare_answers,
    compare_tables,
    compare_used,
    compare_with_plain,
    unnoted_changes,
)
from tests.parity.focus import FOCI
from tests.parity.plain_placing import CannotSay, PlainPlacing, hosts_of
from tests.parity.random_fleets import (
    UUIDS,
    change_report,
    make_aggregate,
    make_aggregates,
    make_fleet,
    make_record,
    make_records,
    make_room,
    make_service,
    make_table,
    report_of,
    usage_of,
)
from tests.parity.random_pipelines import make_plan
from tests.parity.random_requests import make_shape, make_shapes
from tests.parity.twins import twin_of

from roost.hosts import HostTable
from roost.hosts.updates import rebuild_table, set_aggregates, set_service, set_usage
from roost.model import RequestSpec, Selection
from roost.scheduler.incremental import order, ranking, request_class, survivors
from roost.scheduler.incremental.engine import IncrementalEngine

WEIGHTS: dict[str, float] = {
    "place": 30,
    "place_again": 5,
    "place_something_new": 3,
    "try_again": 4,
    "release": 12,
    "report": 22,
    "report_of_many": 3,
    "flip_service": 4,
    "change_aggregate": 3,
    "forget_aggregates": 1,
    "consume_elsewhere": 4,
    "note_image": 3,
    "set_trust": 2,
    "make_room": 1,
    "tidy_columns": 1,
    "dry_run": 1,
    "warm": 8,
    "start_anew": 0.5,
    "learn_usage": 6,
    "learn_service": 2,
    "learn_aggregates": 1,
    "reshape": 1,
}
"""Kind of step -> how often, of a hundred or so."""

SEEN_AT_ONCE = (
    *("report", "flip_service", "set_trust", "note_image", "consume_elsewhere", "change_aggregate"),
    *("learn_usage", "learn_service", "learn_aggregates", "reshape"),
)
"""Steps after which a request is placed that was placed a short while ago: little changed but what the step did."""


def set_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """How many rows a ranking holds, and how many are looked at one by one; returns the sizes before."""
    before = ranking.FEWEST_TOP_ROWS, ranking.FEWEST_EXTREMES, ranking.FEW, order.FEW, order.SORTING
    ranking.FEWEST_TOP_ROWS, ranking.FEWEST_EXTREMES, ranking.FEW, order.FEW, order.SORTING = sizes
    survivors.FEW = request_class.FEW = ranking.FEW
    return before


class Sequence:
    """One fleet, one pipeline, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = dice = random.Random(seed)
        self.focus = focus = FOCI[seed % len(FOCI)]
        self.fleet = make_fleet(dice, focus.fields, focus.keys)
        self.reports = make_records(dice, self.fleet)
        """What each row reported last."""
        self.table = make_table(dice, self.reports)
        self.aside = twin_of(self.table)
        """Another table, for dry runs."""
        self.plan = make_plan(dice, focus)
        self.pipeline = self.plan.build(dice.choice([EAGER, EAGER, EAGER, IncrementalEngine]))
        stock = 256, 64, 24, 32, order.SORTING
        self.sizes = dice.choice([(1, 1, 0, 0, 0), (2, 1, 2, 1, 2), (4, 2, 24, 32, 0), stock])
        """How much the pipeline holds on to, and how much it looks at one by one: small fleets see all of it."""
        self.shapes = make_shapes(dice, self.table.names, self.make_shape)
        self.last = self.shapes[-1]
        self.failed: list[Request] = []
        """For which there was no host."""
        self.placed: list[tuple[int, RequestSpec]] = []
        self.members: dict[str, list[str]] = {}
        """Server group -> its members."""
        self.instances = 0
        self.tally: Counter[str] = Counter()

    def run(self, steps: int) -> Counter[str]:
        before = set_sizes(self.sizes)
        try:
            return self.run_steps(steps)
        finally:
            set_sizes(before)

    def run_steps(self, steps: int) -> Counter[str]:
        kinds = self.dice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=steps)
        for number, kind in enumerate(kinds):
            try:
                self.take_step(kind)
            except Exception as problem:
                again = f"python -m tests.parity.sequences --seed {self.seed} -n 1 --steps {steps}"
                found = str(problem) if isinstance(problem, Difference) else repr(problem)
                message = f"seed {self.seed}, step {number} ({kind}): {found}\nagain: {again}"
                raise Difference(message) from problem
        return self.tally

    def take_step(self, kind: str) -> None:
        table, before, version = self.table, twin_of(self.table), self.table.changes.version
        getattr(self, kind)()
        self.tally[f"step {kind}"] += 1
        unnoted = unnoted_changes(before, table, version)
        if unnoted:
            raise Difference(f"changed, and not in the log: {unnoted}")
        if kind in SEEN_AT_ONCE and self.dice.random() < 0.8:
            self.probe()

    # --- placing -----------------------------------------------------------------------------------------

    def place(self) -> None:
        is_huge = self.dice.random() < 0.08
        self.last = self.shapes[-1] if is_huge else self.dice.choice(self.shapes[:-1])
        self.place_again()

    def probe(self) -> None:
        """One of two shapes, with all hosts as alternates, so that the order of all shows; mostly undone at once."""
        shape = self.shapes[0 if self.dice.random() < 0.7 else 1]
        request = self.request_for(shape, self.table)._replace(alternates=len(self.table), rows=None)
        placed = len(self.placed)
        self.place_request(request)
        if self.dice.random() < 0.7:
            for row, spec in self.placed[placed:]:
                self.table.release(row, spec)
            del self.placed[placed:]

    def place_again(self) -> None:
        """The same object, or an equal one: that makes no difference."""
        shape = self.last if self.dice.random() < 0.5 else replace(self.last)
        self.place_request(self.request_for(shape, self.table))

    def place_request(self, request: Request) -> None:
        answer = self.place_and_compare(self.table, request)
        if answer.error:
            self.failed.append(request)
        elif answer.decision:
            self.remember(request.spec, answer.decision.selections)

    def try_again(self) -> None:
        """The very request for which there was no host; perhaps there is one now."""
        if self.failed:
            request = self.failed.pop(self.dice.randrange(len(self.failed)))
            self.place_request(request)

    def place_something_new(self) -> None:
        self.last = self.make_shape()
        self.place_again()

    def make_shape(self) -> RequestSpec:
        """Mostly one that is the business of the rule in focus."""
        names, fleet = self.table.names, self.fleet
        shape = make_shape(self.dice, names, fleet.has_topologies, fleet.has_devices)
        return self.focus.wish(self.dice, names, shape) if self.dice.random() < 0.85 else shape

    def dry_run(self) -> None:
        """On another table, of which the pipeline knows nothing yet, or only what it saw in earlier dry runs."""
        if self.dice.random() < 0.5:
            self.aside = twin_of(self.table)
        self.place_and_compare(self.aside, self.request_for(self.dice.choice(self.shapes), self.aside))

    def warm(self) -> None:
        """As after an answer, for a request like one that was placed, or like one that comes later."""
        known = [spec for _, spec in self.placed]
        self.pipeline.warm(self.table, self.dice.choice([*known[-4:], self.dice.choice(self.shapes)]))

    def request_for(self, shape: RequestSpec, table: HostTable) -> Request:
        dice = self.dice
        uuids = self.choose_uuids(shape.num_instances)
        rows = list(range(len(table)))
        is_limited = dice.random() < 0.04
        return Request(
            spec=self.with_group(shape, uuids),
            uuids=uuids,
            alternates=dice.choice([0, 0, 1, 2]),
            seed=dice.getrandbits(32),
            rows=dice.sample(rows, dice.randint(1, len(rows))) if is_limited else None,
        )

    def choose_uuids(self, count: int) -> list[str | None]:
        """New instances, some with names that hints know; now and then one that is there, or one without a name."""
        chance = self.dice.random()
        if chance < 0.03:
            return [None] * count
        if chance < 0.06 and self.placed and count == 1:
            return [self.dice.choice(self.placed)[1].instance_uuid]
        uuids: list[str | None] = []
        for number in range(count):
            uuid = self.new_uuid()
            uuids.append(uuid if uuid not in uuids else f"i{self.instances}-{number}")
        return uuids

    def new_uuid(self) -> str:
        self.instances += 1
        known = self.dice.choice(UUIDS)
        is_free = not self.table.rows_of_instance(known) and self.dice.random() < 0.3
        return known if is_free else f"i{self.instances}"

    def with_group(self, shape: RequestSpec, uuids: list[str | None]) -> RequestSpec:
        """The members of its group as they are now, and where they are."""
        group = shape.instance_group
        if group is None:
            return shape
        known = self.members.setdefault(group.uuid or "", [])
        if self.placed and self.dice.random() < 0.15:
            self.change_members(known, str(self.dice.choice(self.placed)[1].instance_uuid))
        members = tuple(dict.fromkeys([*known, *(each for each in uuids if each)]))
        rows = [row for member in members for row in self.table.rows_of_instance(member)]
        hosts = tuple(dict.fromkeys(self.table.names[row][0] for row in rows))
        return replace(shape, instance_group=replace(group, members=members, hosts=hosts))

    def change_members(self, members: list[str], uuid: str) -> None:
        """An instance that runs already joins the group, or leaves it and runs on."""
        members.remove(uuid) if uuid in members else members.append(uuid)

    def place_and_compare(self, table: HostTable, request: Request) -> Answer:
        before, twin = twin_of(table), twin_of(table)
        answer = ask(self.pipeline, table, request)
        compare_answers(answer, ask(self.plan.build(FULL_SCAN), twin, request))
        compare_tables(table, twin)
        if answer.error:
            compare_tables(table, before, is_given_back=True)
        self.tally[answer.kind] += 1
        try:
            self.compare_with_plain(table, before, request, answer)
            self.tally["compared with the plain loops"] += 1
        except CannotSay:
            pass
        return answer

    def compare_with_plain(self, table: HostTable, before: HostTable, request: Request, answer: Answer) -> None:
        hosts = hosts_of(before)
        in_the_running = hosts if request.rows is None else [hosts[row] for row in request.rows]
        dice = random.Random(request.seed)
        plain = PlainPlacing(in_the_running, before.known_aggregates, self.pipeline, request.spec, dice)
        compare_with_plain(answer, plain.run(request.uuids, request.alternates))
        if not answer.error and not request.spec.numa_topology and not request.spec.pci_requests:
            compare_used(table, hosts)

    def remember(self, spec: RequestSpec, selections: tuple[Selection, ...]) -> None:
        """As the scheduler does; but what the image says is sometimes noted late, or never."""
        for each in selections:
            row = self.table.find_row((each.host, each.node))
            assert row is not None
            assert each.placed is not None
            if spec.is_rebuild:
                self.table.release(row, each.placed)
                continue
            self.placed.append((row, each.placed))
            if self.dice.random() < 0.6:
                self.table.note_image(row, each.placed)
        if spec.instance_group and not spec.is_rebuild:
            self.members[spec.instance_group.uuid or ""] = list(spec.instance_group.members)

    # --- what else happens -------------------------------------------------------------------------------

    def release(self) -> None:
        """One instance, or one in two."""
        count = 1 if self.dice.random() < 0.7 else len(self.placed) // 2
        for _ in range(min(count, len(self.placed))):
            row, spec = self.placed.pop(self.dice.randrange(len(self.placed)))
            self.table.release(row, spec)
            group = spec.instance_group
            if group and spec.instance_uuid in self.members.get(group.uuid or "", []) and self.dice.random() < 0.7:
                self.members[group.uuid or ""].remove(spec.instance_uuid)

    def report(self) -> None:
        for _ in range(self.dice.choice([1, 1, 1, 3])):
            self.report_of_one()

    def report_of_one(self) -> None:
        """Of a host that knows of everything placed on it, or has not heard of it yet."""
        row = self.dice.randrange(len(self.table))
        is_late = self.dice.random() < 0.2
        known = self.reports[row] if is_late else report_of(self.table, row, self.reports[row])
        self.update(row, change_report(self.dice, self.fleet, known))

    def report_of_many(self) -> None:
        for _ in range(self.dice.choice([5, len(self.table)])):
            self.report_of_one()

    def update(self, row: int, report: object) -> None:
        """What was placed there with cells or devices is not given back: the host reports others now."""
        self.reports[row] = report
        self.table.update(row, report)
        fitted = [spec.numa_topology is not None or spec.pci_requests for _, spec in self.placed]
        pairs = zip(self.placed, fitted, strict=True)
        self.placed = [each for each, is_fitted in pairs if each[0] != row or not is_fitted]

    def update_now(self, row: int, **fields: object) -> None:
        self.update(row, replace(report_of(self.table, row, self.reports[row]), **fields))

    def flip_service(self) -> None:
        row = self.dice.randrange(len(self.table))
        self.update_now(row, service=make_service(self.dice, self.fleet))

    def make_room(self) -> None:
        """Now there is a host for what fitted nowhere; a later report takes it away again."""
        row = self.dice.randrange(len(self.table))
        self.update(row, make_room(report_of(self.table, row, self.reports[row])))

    def change_aggregate(self) -> None:
        """New metadata for one of them. The news reaches its hosts, or only some of them yet."""
        at = self.dice.randrange(len(self.fleet.aggregates))
        old, share = self.fleet.aggregates[at], self.dice.choice([0.5, 1.0, 1.0])
        new = self.fleet.aggregates[at] = make_aggregate(self.dice, old.id, self.fleet.keys)
        for row, report in enumerate(self.reports):
            if old in report.aggregates and self.dice.random() < share:
                self.update_now(row, aggregates=tuple(new if each == old else each for each in report.aggregates))
        self.table.known_aggregates = tuple(self.fleet.aggregates)

    def forget_aggregates(self) -> None:
        """All of them, or all but some; what hosts say of themselves stays."""
        aggregates = self.fleet.aggregates
        self.table.known_aggregates = tuple(self.dice.sample(aggregates, self.dice.randint(0, len(aggregates))))

    def consume_elsewhere(self) -> None:
        """Another scheduler places something; this one may get to release it."""
        row, shape = self.dice.randrange(len(self.table)), self.dice.choice(self.shapes)
        placed = self.table.consume(row, shape.for_instance(self.new_uuid()))
        if self.dice.random() < 0.5:
            self.placed.append((row, placed))

    def note_image(self) -> None:
        if self.placed:
            self.table.note_image(*self.dice.choice(self.placed))

    def set_trust(self) -> None:
        nodes = [node for _, node in self.table.names if self.dice.random() < 0.3]
        self.table.set_trust({node: self.dice.choice(["trusted", "untrusted", "unknown"]) for node in nodes})

    def tidy_columns(self) -> None:
        """Values that nobody has are forgotten and the others get new codes, as the table does now and then."""
        for column in self.table.encoded.values():
            column._drop_unused()

    # --- what a host manager reads from a store ----------------------------------------------------------

    def learn_usage(self) -> None:
        """Somebody came or left, and the figures are others."""
        row = self.dice.randrange(len(self.table))
        now = change_report(self.dice, self.fleet, report_of(self.table, row, self.reports[row]))
        kept = tuple(each for each in now.instances if self.dice.random() < 0.8)
        gone = [uuid for uuid in self.table.instances.get(row, {}) if uuid not in {each.uuid for each in kept}]
        set_usage(self.table, row, usage_of(replace(now, instances=kept), gone))

    def learn_service(self) -> None:
        row = self.dice.randrange(len(self.table))
        service = make_service(self.dice, self.fleet)
        self.reports[row] = replace(self.reports[row], service=service)
        set_service(self.table, row, service)

    def learn_aggregates(self) -> None:
        row = self.dice.randrange(len(self.table))
        aggregates = make_aggregates(self.dice, self.fleet)
        self.reports[row] = replace(self.reports[row], aggregates=aggregates)
        set_aggregates(self.table, row, aggregates)

    def reshape(self) -> None:
        """Hosts vanish, and one that was not there appears or returns."""
        rows = range(len(self.table))
        gone = set(self.dice.sample(rows, self.dice.choice([0, 1, min(2, len(rows) - 1)])))
        name = (self.dice.choice(["Host7", "aaa", "zzz", "host03"]), "n9")
        new = [] if name in self.table.names else [make_record(self.dice, self.fleet, *name)]
        names = self.table.names
        stay = {row: names[row] for row in rows if row not in gone}
        known = {names[row]: self.reports[row] for row in stay} | {(each.host, each.node): each for each in new}
        self.table = rebuild_table(self.table, gone, new)
        self.reports = [known[pair] for pair in self.table.names]
        row_of = {row: self.table.find_row(pair) for row, pair in stay.items()}
        self.placed = [(row_of[row], spec) for row, spec in self.placed if row in row_of]
        self.failed = [each for each in self.failed if each.rows is None]  # others name rows that have moved

    def start_anew(self) -> None:
        """The table is read anew: another object with the same hosts, and a log that begins at 0."""
        self.table = self.table.copy()


def run_sequences(seeds: Iterator[int] | range, steps: int) -> Counter[str]:
    """Those with these seeds; what happened, counted."""
    tally: Counter[str] = Counter()
    for seed in seeds:
        tally += Sequence(seed).run(steps)
    return tally


# --- the command -----------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    chosen = make_parser().parse_args(arguments)
    console, started = Console(stderr=True), time.perf_counter()
    seeds = range(chosen.seed, chosen.seed + chosen.n)
    shown = track(
        seeds, "sequences", console=console, transient=True, disable=chosen.quiet or not console.is_terminal
    )
    try:
        tally = run_sequences(shown, chosen.steps)
    except Difference as difference:
        print(difference, file=sys.stderr)
        return 1
    for what, count in sorted(tally.items()):
        print(f"{count:10,} {what}")
    seconds = time.perf_counter() - started
    print(f"{chosen.n} sequences of {chosen.steps} steps from seed {chosen.seed}: no difference, {seconds:.0f} s")
    return 0


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.sequences", description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=200, metavar="SEQUENCES", help="how many (default: 200)")
    parser.add_argument("--steps", type=int, default=100, help="in each of them (default: 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the next has the next (default: 1)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


if __name__ == "__main__":
    sys.exit(main())
