# SPDX-License-Identifier: Apache-2.0
"""`roost explain`: why a request fits where it does, or nowhere; or why it does not go to one host.

A report is one sentence, a table, and what would help, on one screen. Other commands that explain share its parts.
"""

from __future__ import annotations

import argparse
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from roost.cli.arguments import add_config_arguments, add_request_arguments, build_request, check_size, non_empty
from roost.cli.fleet_arguments import (
    add_fleet_arguments,
    add_what_if_arguments,
    arguments_for,
    load_fleet,
    make_scheduler,
)
from roost.cli.output import Report, ReportCommand
from roost.errors import BadInput
from roost.model.json_records import to_json
from roost.model.remedy import Remedy, counted, listed
from roost.questions.records import (
    Explanation,
    HostExplanation,
    HostScore,
    Lift,
    NearestMiss,
    RankedHost,
    Reason,
    ScoreDifference,
)


def add_explanation_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --host, --node and --long."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--host",
        type=non_empty,
        metavar="NAME",
        help="everything that stops this host, or why another one is better",
    )
    which.add_argument("--long", action="store_true", help="each rejected host, with the first check that rejects it")
    parser.add_argument("--node", metavar="NAME", help="with --host: which node of a host with several")


def check_explanation_arguments(parsed_args: argparse.Namespace) -> None:
    """BadInput for a node without its host."""
    if parsed_args.node and not parsed_args.host:
        raise BadInput("--node is for --host", "name the host, too: --host NAME --node NAME")


WIDTH = 79
"""Of sentences, in characters."""


def remedy_lines(remedy: Remedy) -> Iterator[str]:
    """The remedy in words, and the arguments that try it out, unless it is a change of the request."""
    yield from item(f"Remedy: {remedy.text}", "  ")
    if arguments := arguments_for(remedy.changes):
        yield f"  Try it: {' '.join(arguments)}"


def item(text: str, indent: str = "- ") -> list[str]:
    """The text in lines that fit the screen, the first one after `indent`; names are not broken."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_long_words=False,
        break_on_hyphens=False,
    )


def score_cells(score: HostScore) -> tuple[str, float, float, float, float]:
    """Weigher, raw number, normalised number, multiplier and contribution, as cells of a row."""
    raw, multiplier = whole_if_possible(score.raw), whole_if_possible(score.multiplier)
    return score.weigher, raw, score.normalised, multiplier, score.contribution


def whole_if_possible(number: float) -> float:
    """The number, as an int if it is whole: it is printed without decimals then."""
    return int(number) if number.is_integer() else number


def name_of(host: str, node: str) -> str:
    """A host in a sentence; with its node, if that has another name."""
    return host if host == node else f"{host} (node {node})"


def host_explanation_report(explanation: HostExplanation) -> Report:
    """Everything that rejects the host; if nothing does, its scores, beside those of the winner."""
    if explanation.own is None or explanation.winner is None:
        return _blockers_report(explanation)
    if explanation.is_winner:
        return _own_report(explanation, explanation.own)
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


def _own_report(explanation: HostExplanation, own: RankedHost) -> Report:
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


_WORDS = {
    "cell": "in another cell",
    "requested_destination": "not the host asked for",
    "ignore_hosts": "ignored, as the request says",
    "force_hosts": "not the host asked for",
    "requested_aggregates": "outside the aggregates asked for",
    "forbidden_aggregates": "in a forbidden aggregate",
    "tenant_aggregate": "kept for other projects",
    "availability_zone": "outside the zone",
    "isolated_aggregates": "kept for requests that ask for their traits",
    "disabled": "disabled or down",
    "vcpu": "without enough CPUs",
    "ram": "without enough memory",
    "disk": "without enough disk",
    "traits": "without the traits",
    "placement": "without an offer of placement",
    "AggregateImagePropertiesIsolation": "kept for other images",
    "AggregateInstanceExtraSpecsFilter": "whose aggregates do not suit the flavor",
    "AggregateTypeAffinityFilter": "kept for other flavors",
    "ComputeCapabilitiesFilter": "without the capabilities",
    "ExactCoreFilter": "without exactly as many CPUs",
    "ExactDiskFilter": "without exactly as much disk",
    "ExactRamFilter": "without exactly as much memory",
    "GroupAffinityFilter": "other than that of the group",
    "GroupAntiAffinityFilter": "that have a member of the group",
    "DifferentHostFilter": "that run an instance to keep away from",
    "ImagePropertiesFilter": "that cannot run the image",
    "AggregateIoOpsFilter": "with too many I/O operations",
    "IoOpsFilter": "with too many I/O operations",
    "IsolatedHostsFilter": "kept for other images",
    "JsonFilter": "that do not match the query",
    "MetricsFilter": "without the metrics",
    "NUMATopologyFilter": "without room for the NUMA topology",
    "AggregateNumInstancesFilter": "with too many instances",
    "NumInstancesFilter": "with too many instances",
    "PciPassthroughFilter": "without the PCI devices",
    "RetryFilter": "tried already",
    "SameHostFilter": "without the instance to be near to",
    "ServerGroupAffinityFilter": "other than that of the group",
    "ServerGroupAntiAffinityFilter": "that have a member of the group",
    "SimpleCIDRAffinityFilter": "in another network",
    "TrustedFilter": "not trusted as asked",
    "TypeAffinityFilter": "that run other flavors",
}


def what_is_wrong(stage: str, subject: str) -> str:
    """What hosts have in common that a check about this subject rejects."""
    if subject in _WORDS:
        return _WORDS[subject]
    if stage == "prefilter":
        return f"without the traits of {subject}"
    return f"without enough {subject}" if stage == "capacity" else f"rejected by {subject}"


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


class Explain(ReportCommand):
    """Say why a request fits on some hosts, or on none, and what would help. Places nothing.

    The exit code is 0 if the request fits - with --host, if that host can take it - and 1 if not.
    """

    columns = None  # those of the explanation

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the fleet, the arguments that describe the request, and what is to be explained."""
        add_fleet_arguments(parser)
        add_explanation_arguments(parser)
        add_request_arguments(parser)
        add_config_arguments(parser.add_argument_group("scheduler"))
        add_what_if_arguments(parser.add_argument_group("what if"))

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The explanation, and exit code 0 if the request fits, else 1."""
        check_size(parsed_args)  # before a live cloud is asked for its fleet
        check_explanation_arguments(parsed_args)
        fleet = load_fleet(parsed_args, getattr(self.app_args, "quiet", False))
        scheduler = make_scheduler(fleet, parsed_args)
        spec = build_request(parsed_args, fleet, scheduler)
        if parsed_args.host:
            about_host = scheduler.explain_host(spec, parsed_args.host, parsed_args.node)
            return host_explanation_report(about_host), 0 if about_host.own else 1
        explanation = scheduler.explain(spec)
        return explanation_report(explanation, parsed_args.long), 0 if explanation.fits else 1
