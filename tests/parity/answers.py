# SPDX-License-Identifier: Apache-2.0
"""What a pipeline answers to one request, and whether that is what another one, or the plain loops, answer."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from tests.parity.plain_placing import USED, Host, PlainPlacing, Ranked

from roost.errors import NoValidHost, RoostError
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec
from roost.scheduler.pipeline import Pipeline


class Difference(AssertionError):
    """Two answers that should be the same are not."""


class Request(NamedTuple):
    """Everything that a placement depends on besides pipeline and table."""

    spec: RequestSpec
    uuids: list[str | None]
    alternates: int
    seed: int
    """Of the randomness: where chance decides, it decides the same way for everybody."""
    rows: list[int] | None
    """The hosts to choose from, in this order; all of them by default."""


class Answer(NamedTuple):
    """A decision, or an error; NoValidHost is both."""

    decision: Decision | None
    error: RoostError | None = None

    @property
    def kind(self) -> str:
        if self.error is None:
            return "placed"
        return "no host" if self.decision else "error"


def ask(pipeline: Pipeline, table: HostTable, request: Request) -> Answer:
    hosts = None if request.rows is None else table.in_the_running().take(np.array(request.rows, dtype=np.intp))
    try:
        return Answer(
            pipeline.place(
                table,
                request.spec,
                request.uuids,
                randomness=random.Random(request.seed),
                clock=lambda: 0,
                alternates=request.alternates,
                hosts=hosts,
            )
        )
    except NoValidHost as failure:
        return Answer(failure.decision, failure)
    except RoostError as error:
        return Answer(None, error)


def expect(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        here, there = shorten(str(found), str(expected))
        raise Difference(f"{what}\n    found:    {here}\n    expected: {there}")


def shorten(found: str, expected: str, before: int = 160, after: int = 240) -> tuple[str, str]:
    """The part around the first letter in which they differ."""
    pairs = enumerate(zip(found, expected, strict=False))
    first = next((at for at, (here, there) in pairs if here != there), min(len(found), len(expected)))
    start = max(0, first - before)
    dots = "..." if start else ""
    return dots + found[start : first + after], dots + expected[start : first + after]


# --- two pipelines -----------------------------------------------------------------------------------------


def compare_answers(found: Answer, expected: Answer) -> None:
    """Everything: counts, texts, weights to the bit, limits, alternates, and the requests as they were placed."""
    expect("error", *((type(each.error).__name__, str(each.error)) for each in (found, expected)))
    if found.decision and expected.decision:
        for name in Decision.__dataclass_fields__:
            expect(name, repr(getattr(found.decision, name)), repr(getattr(expected.decision, name)))
        for here, there in zip(found.decision.selections, expected.decision.selections, strict=True):
            expect(f"{here.host}: what was placed", here.placed, there.placed)


UNSEEN_STATE = {
    "granular classes": lambda table: table.granular_classes,
    "known_aggregates": lambda table: table.known_aggregates,
    "whole nodes before they were consumed": lambda table: table.whole_nodes._before,
    "extra references": lambda table: table.instance_index._extra_references,
    "rows of instances": lambda table: table.instance_index._rows,
}


def compare_tables(found: HostTable, expected: HostTable, is_given_back: bool = False) -> None:
    """The same in every cell; but devices that were taken and given back may be in other pools' places."""
    expect("columns", list(found.numbers), list(expected.numbers))
    for name, column in found.numbers.items():
        if not np.array_equal(column, expected.numbers[name]):
            expect(f"column {name}", column.tolist(), expected.numbers[name].tolist())
    for name, encoded in found.encoded.items():
        for row in changed_rows(encoded, expected.encoded[name]):
            order = by_text if is_given_back and name == "pci_pools" else lambda value: value
            expect(f"column {name} of row {row}", order(encoded.at(row)), order(expected.encoded[name].at(row)))
    expect("instances", held(found), held(expected))
    for name, read in UNSEEN_STATE.items():
        expect(name, rows_in_order(read(found)), rows_in_order(read(expected)))


def changed_rows(now: Any, before: Any) -> Iterator[int]:
    """Rows that may hold another value: they have another code, or the codes stand for other values."""
    is_renumbered = now.values[: len(before.values)] != before.values
    rows = range(len(now.codes)) if is_renumbered else np.flatnonzero(now.codes != before.codes).tolist()
    return (row for row in rows if now.at(row) != before.at(row))


def by_text(values: Sequence[Any]) -> list[Any]:
    return sorted(values, key=repr)


def held(table: HostTable) -> dict[int, Any]:
    return {row: instances for row, instances in table.instances.items() if instances}


def rows_in_order(value: Any) -> Any:
    """Where an instance is noted on two rows, or a node was never taken, their order says nothing."""
    if not isinstance(value, dict):
        return value
    return {key: sorted(each) if isinstance(each, tuple) else each for key, each in value.items() if each}


def unnoted_changes(before: HostTable, now: HostTable, version: int) -> list[tuple[int, str]]:
    """(row, column) of cells that changed since then, of which the log says nothing; none where it has forgotten."""
    changes = now.changes.rows_since(version)
    if changes is None:
        return []
    noted = {(row, name) for row, columns in changes.items() for name in columns}
    return [cell for cell in changed_cells(before, now) if cell not in noted]


def changed_cells(before: HostTable, now: HostTable) -> Iterator[tuple[int, str]]:
    for name, column in now.numbers.items():
        if name in before.numbers:
            yield from ((row, name) for row in np.flatnonzero(column != before.numbers[name]).tolist())
    for name, encoded in now.encoded.items():
        yield from ((row, name) for row in changed_rows(encoded, before.encoded[name]))
    for row in before.instances.keys() | now.instances.keys():
        if before.instances.get(row, {}).keys() != now.instances.get(row, {}).keys():
            yield row, "instances"


# --- a pipeline and the plain loops --------------------------------------------------------------------------


def compare_with_plain(found: Answer, plain: PlainPlacing) -> None:
    if plain.errors:
        kind = getattr(found.error, "nova_type", type(found.error).__name__)
        if kind not in plain.errors:
            raise Difference(f"error {kind}, one of {plain.errors} expected")
        return
    if found.decision is None:
        raise Difference(f"error {found.error!r}, none expected")
    decision = found.decision
    expect("steps", [tuple(step[:4]) for step in decision.steps], plain.steps)
    expect("failed at", decision.failed_at, plain.failed_at)
    compare_ranked("best", decision.best, plain.best)
    if plain.failed_at is None:
        compare_ranked("chosen", [each.ranked for each in decision.selections], plain.chosen)
        chosen = [(each.host, each.node) for each in decision.selections]
        expect("chosen hosts", chosen, [each.host.name for each in plain.chosen])
        alternates = [[(each.host, each.node) for each in selection.alternates] for selection in decision.selections]
        expect("alternates", alternates, plain.alternates)


def compare_ranked(what: str, found: Sequence[Any], expected: Sequence[Ranked]) -> None:
    expect(f"{what}: hosts", [(each.host, each.node) for each in found], [each.host.name for each in expected])
    weights = [each.weight.hex() for each in found]
    if weights != [each.weight.hex() for each in expected]:
        raise Difference(
            f"{what}: weights {[each.weight for each in found]}, not {[each.weight for each in expected]}"
        )
    for here, there in zip(found, expected, strict=True):
        scores = {name: exact(each) for name, each in here.scores.items()}
        expect(f"{what}: scores of {here.host}", scores, {name: exact(each) for name, each in there.scores.items()})


def exact(numbers: Sequence[float]) -> list[str]:
    """To the bit; but 0 has no sign."""
    return [(each + 0.0).hex() for each in numbers]


def compare_used(table: HostTable, hosts: Sequence[Host]) -> None:
    """What the plain loops consumed is what the table says is gone; `hosts` are in the order of its rows."""
    for name in USED:
        expect(name, table.numbers[name].tolist(), [getattr(host.plain, name) for host in hosts])
    for name in table.resource_classes():
        expect(
            f"allocated {name}",
            table.numbers[f"allocated:{name}"].tolist(),
            [host.plain.allocated[name] for host in hosts],
        )
    instances = {row: set(each) for row, each in held(table).items()}
    expect(
        "instances",
        instances,
        {row: set(host.plain.instances) for row, host in enumerate(hosts) if host.plain.instances},
    )
