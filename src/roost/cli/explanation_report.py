# SPDX-License-Identifier: Apache-2.0
"""Explanations as reports: one sentence, a table, and what would help, on one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from roost.cli.explanation_parts import WIDTH, item, name_of, remedy_lines, score_cells
from roost.cli.host_explanation_report import host_explanation_report
from roost.cli.output import Report
from roost.cli.rejection_words import what_is_wrong
from roost.model.json_records import to_json
from roost.model.remedy import counted, listed
from roost.questions.records import Explanation, Lift, NearestMiss, Reason

__all__ = ["explanation_report", "host_explanation_report"]

MOST_CHECKS, MOST_HELPS, MOST_IN_LEAD = 6, 3, 4
"""How much is shown, so that it fits on one screen; JSON has all of it."""
FURTHER = (
    "Add --host NAME for everything that stops one host, --long for each rejected\n"
    "host with its first reason, -f json for all of it."
)

FunnelRow = tuple[str, str, int | str, int, int | str, int]
"""Stage, check, hosts that came to it, rejected ones, those left, and all that it would reject."""


def explanation_report(explanation: Explanation, lists_hosts: bool = False) -> Report:
    """The funnel and what would help; if the request fits, the scores of the winner.

    `lists_hosts`: a row for each rejected host with its first reason, instead.
    """
    if lists_hosts:
        return _list_of_hosts(explanation)
    return _winner_report(explanation) if explanation.fits else _failure_report(explanation)


def _list_of_hosts(explanation: Explanation) -> Report:
    rows = [(each.host, each.node, each.stage, each.name, each.reason) for each in explanation.rejections]
    same = frozenset({"Node"} if all(each.host == each.node for each in explanation.rejections) else ())
    caption = f"{len(rows):,} of {counted(explanation.hosts, 'host')} rejected, each by the first check that does"
    record = partial(to_json, explanation)
    return Report(record, ("Host", "Node", "Stage", "Check", "Reason"), rows, caption=caption, minor=same)


# --- a request that does not fit ---------------------------------------------------------------------------


def _failure_report(explanation: Explanation) -> Report:
    rows = list(_funnel_rows(explanation))
    shown = _most_telling(rows)
    parts = [_sum_of(explanation, len(rows) - len(shown)), "\n".join(_helps(explanation)), FURTHER]
    columns = ("Stage", "Check", "In", "Rejected", "Left", "In all")
    caption = "\n\n".join(each for each in parts if each)
    lead, minor = _failure_lead(explanation), _minor(columns, shown)
    return Report(partial(to_json, explanation), columns, shown, lead=lead, caption=caption, minor=minor)


def _most_telling(rows: Sequence[FunnelRow]) -> list[FunnelRow]:
    """All rows that reject hosts in a placement, and of the others those that would reject most; in their order."""
    count = max(MOST_CHECKS, sum(1 for row in rows if row[3]))
    ranked = sorted(range(len(rows)), key=lambda at: (-rows[at][3], -rows[at][5]))
    return [rows[at] for at in sorted(ranked[:count])]


def _minor(columns: Sequence[str], rows: Sequence[FunnelRow]) -> frozenset[str]:
    """The column of stages, if the table would not fit the screen with it."""
    widths = [max(len(str(cell)) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    return frozenset({"Stage"} if sum(widths) + 3 * len(widths) + 1 > WIDTH else ())


def _failure_lead(explanation: Explanation) -> str:
    """What happened, in one sentence."""
    if not explanation.hosts:
        return "No host fits: there are no hosts."
    which = ""
    if explanation.wanted > 1:
        which = f"{explanation.placed:,} of {counted(explanation.wanted, 'instance')} fit. For the next one, "
    wrong = _what_is_wrong(explanation.reasons)
    said = f"{which}{'no' if which else 'No'} host of {explanation.hosts:,} fits: {wrong}."
    return "\n".join(item(said, ""))


def _what_is_wrong(reasons: Iterable[Reason]) -> str:
    """`6 outside the zone and 5 without enough memory`: of each host the first reason."""
    said: dict[str, int] = {}
    for each in reasons:
        if each.hosts:
            wrong = what_is_wrong(each.stage, each.subject)
            said[wrong] = said.get(wrong, 0) + each.hosts
    ordered = sorted(said.items(), key=lambda each: -each[1])
    told = [f"{count:,} {wrong}" for wrong, count in ordered[:MOST_IN_LEAD]]
    if rest := sum(count for _, count in ordered[MOST_IN_LEAD:]):
        told.append(f"{rest:,} for other reasons")
    return listed(told, len(told))


def _funnel_rows(explanation: Explanation) -> Iterator[FunnelRow]:
    """The steps that reject a host, or would; then the checks that would, had a host come to them.

    Of checks that ask for the same thing there is one row, which counts for all of them, unless several reject hosts.
    """
    reasons = {each.name: each for each in explanation.reasons}
    rows_of = Counter(each.subject for each in explanation.reasons if each.hosts)
    told = set(rows_of)
    steps = {each.name: each for each in explanation.steps}
    for name in [*steps, *(each for each in reasons if each not in steps)]:
        reason, step = reasons.get(name), steps.get(name)
        if reason is None or (reason.subject in told and not reason.hosts):
            continue
        told.add(reason.subject)
        before, after = (step.before, step.after) if step else ("", "")
        in_all = reason.hosts_in_all if rows_of[reason.subject] > 1 else reason.hosts_of_subject
        yield reason.stage, name, before, reason.hosts, after, in_all


def _sum_of(explanation: Explanation, hidden: int) -> str:
    """How the numbers of the table add up."""
    counts = [each.hosts for each in explanation.reasons if each.hosts]
    total = f"Rejected adds up to {counted(sum(counts), 'host')}. In all: also hosts that an earlier check rejected."
    return total + (f"\n{counted(hidden, 'more check')}: see -f json." if hidden else "")


def _helps(explanation: Explanation) -> Iterator[str]:
    """What would help, one change at a time, and where no single one does, what comes nearest."""
    singles = {each.subjects[0]: each for each in explanation.lifts if len(each.subjects) == 1}
    misses = explanation.misses
    if singles:
        yield "What would help, one change at a time:"
        misses = tuple(each for each in misses if each.subject in singles) or misses
    elif explanation.lifts:
        together = explanation.lifts[0]
        yield from item(f"No single change helps. {_without(together)}", "")
        misses = tuple(each for each in misses if each.subject in together.subjects)
    elif misses:
        yield "What the hosts lack:"
    for miss in misses[:MOST_HELPS]:
        yield from _help(miss, singles.get(miss.subject))
    if len(misses) > MOST_HELPS:
        yield f"- and {len(misses) - MOST_HELPS} more: -f json has them"


def _help(miss: NearestMiss, lift: Lift | None) -> Iterator[str]:
    """One check: the nearest miss, what it would fit on without it, and the remedy."""
    yield from item(f"{miss.check}: {_ended(miss.text)}" + (f" {_without(lift)}" if lift else ""))
    if miss.remedy:
        yield from remedy_lines(miss.remedy)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(("?", ".")) else f"{sentence}."


def _without(lift: Lift) -> str:
    """`Without this, 3 hosts would do: a, b and c.`"""
    names = listed(lift.examples, total=lift.hosts)
    what = "Without this" if len(lift.subjects) == 1 else f"Without {listed(lift.subjects, len(lift.subjects))}"
    return f"{what}, {counted(lift.hosts, 'host')} would do: {names}."


# --- a request that fits -------------------------------------------------------------------------------------


def _winner_report(explanation: Explanation) -> Report:
    """The scores of the winner, a row per weigher, beside those of the second."""
    winner, second = explanation.best[0], (*explanation.best, None)[1]
    columns = ("Weigher", "Raw", "Normalised", "Multiplier", "Score", "Score of second")
    rows = []
    for at, score in enumerate(winner.scores):
        beside = second.scores[at].contribution if second else 0.0
        if score.contribution or beside:
            rows.append((*score_cells(score), beside))
    parts = [_margin(explanation), _alternates(explanation), _left_out(explanation)]
    caption = "\n".join([*filter(None, parts), "", FURTHER])
    return Report(partial(to_json, explanation), columns, rows, lead=_winner_lead(explanation), caption=caption)


def _winner_lead(explanation: Explanation) -> str:
    name = name_of(explanation.best[0].host, explanation.best[0].node)
    if explanation.fitting == 1:
        won = f"{name} is the only one of {counted(explanation.hosts, 'host')} that fits, so it was not weighed"
    else:
        won = f"{name} is the best of the {explanation.fitting:,} hosts, of {explanation.hosts:,}, that can take it"
    if explanation.wanted > 1:
        return f"All {explanation.wanted:,} instances fit. For the first, {won}."
    return f"The request fits: {won}."


def _margin(explanation: Explanation) -> str:
    """By how much the winner is ahead of the second."""
    if explanation.margin is None:
        return ""
    first, second = explanation.best[:2]
    names = [name_of(each.host, each.node) for each in (first, second)]
    weights = f"{names[0]} weighs {first.weight:.4f}, the second, {names[1]}, {second.weight:.4f}"
    if explanation.picks_among > 1:
        return f"{weights}. One of the best {explanation.picks_among} is picked by chance."
    if not explanation.margin:
        return f"{weights}: the order of names decides."
    return f"{weights}: a margin of {explanation.margin:.4f}."


def _alternates(explanation: Explanation) -> str:
    return f"To be tried next: {listed(explanation.alternates, 5)}." if explanation.alternates else ""


def _left_out(explanation: Explanation) -> str:
    if not explanation.rejections:
        return "No host was rejected."
    return f"Rejected: {_what_is_wrong(explanation.reasons)}."
