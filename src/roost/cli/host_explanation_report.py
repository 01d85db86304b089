# SPDX-License-Identifier: Apache-2.0
"""The explanation of one host as a report: everything that rejects it, or why another host won."""

from __future__ import annotations

from functools import partial

from roost.cli.explanation_parts import name_of, remedy_lines, score_cells, whole_if_possible
from roost.cli.output import Report
from roost.model.json_records import to_json
from roost.model.remedy import counted
from roost.questions.records import HostExplanation, RankedHost, ScoreDifference


def host_explanation_report(explanation: HostExplanation) -> Report:
    """Everything that rejects the host; if nothing does, its scores, beside those of the winner."""
    if explanation.own is None or explanation.winner is None:
        return _blockers_report(explanation)
    if explanation.is_winner:
        return _winner_report(explanation, explanation.own)
    return _comparison_report(explanation, explanation.own, explanation.winner)


def _blockers_report(explanation: HostExplanation) -> Report:
    """A row per check that rejects the host; below it, what would let it pass each of them."""
    rows = [(each.stage, each.name, each.reason) for each in explanation.blockers]
    name, which = name_of(explanation.host, explanation.node), _instance(explanation)
    first = next(each.name for each in explanation.blockers if each.is_first)
    lines = [f"A placement rejects it at {first}, and asks no further." if len(rows) > 1 else ""]
    told: set[str] = set()
    for each in explanation.blockers:
        if each.remedy and each.subject not in told:
            told.add(each.subject)
            lines += [f"- {each.name}", *remedy_lines(each.remedy)]
    return Report(
        partial(to_json, explanation),
        ("Stage", "Check", "Reason"),
        rows,
        lead=f"{name} cannot take {which}: {_against(explanation)}.",
        caption="\n".join(filter(None, lines)),
    )


def _against(explanation: HostExplanation) -> str:
    """How many checks reject the host, and how many things these ask for, where that is fewer."""
    checks, subjects = len(explanation.blockers), {each.subject for each in explanation.blockers}
    rejected = "1 check rejects it" if checks == 1 else f"{checks} checks reject it"
    return rejected if len(subjects) == checks else f"{rejected}, for {counted(len(subjects), 'reason')}"


def _instance(explanation: HostExplanation) -> str:
    """Which instance the explanation is about."""
    if explanation.wanted == 1:
        return "the request"
    if explanation.placed == explanation.wanted:
        return "the first instance"
    return f"instance {explanation.placed + 1:,} of {explanation.wanted:,}"


def _winner_report(explanation: HostExplanation, own: RankedHost) -> Report:
    """A row per weigher with the numbers of the host, which is the best one."""
    fitting = explanation.fitting
    among = "the only host that fits" if fitting == 1 else f"the best of {fitting:,} hosts that fit"
    return Report(
        partial(to_json, explanation),
        ("Weigher", "Raw", "Normalised", "Multiplier", "Score"),
        [score_cells(each) for each in own.scores if each.contribution],
        lead=f"{name_of(own.host, own.node)} takes {_instance(explanation)}: it is {among}.",
    )


def _comparison_report(explanation: HostExplanation, own: RankedHost, winner: RankedHost) -> Report:
    """A row per weigher: the numbers of the host, those of the winner, and by how much that leads."""
    names = [name_of(each.host, each.node) for each in (own, winner)]
    if explanation.decided_by:
        decided = f"{explanation.decided_by} decided: there the winner leads most."
    else:
        decided = "The weights are equal, so the order of the names decided."
    return Report(
        partial(to_json, explanation),
        ("Weigher", "Raw", "Winner's raw", "Score", "Winner's score", "Lead"),
        [_cells(each) for each in explanation.differences if each.own.contribution or each.winner.contribution],
        lead=f"{names[0]} can take {_instance(explanation)}, but is number {own.rank:,} of {explanation.fitting:,}.",
        caption=f"{names[1]} won: it weighs {winner.weight:.4f}, {names[0]} {own.weight:.4f}.\n{decided}",
    )


def _cells(difference: ScoreDifference) -> tuple[str, float, float, float, float, float]:
    own, winner = difference.own, difference.winner
    raw = whole_if_possible(own.raw), whole_if_possible(winner.raw)
    return difference.weigher, *raw, own.contribution, winner.contribution, difference.lead
