# SPDX-License-Identifier: Apache-2.0
"""Headroom as a report: rows per zone, host or flavor, and a caption that sums up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roost.cli.columns import Columns
from roost.cli.output import Report
from roost.errors import BadInput
from roost.questions.headroom import AVAILABILITY_ZONE
from roost.questions.plan import Counted, headroom_record
from roost.questions.records import Headroom, HostLoss, Shortage

ALL_COLUMNS = {
    "Flavor": "flavor",
    "Fit": "fits",
    "On hosts": "hosts_used",
    "Runs out first": "shortages",
    "After a loss": "fits_after_a_loss",
    "Lost host": "lost_host",
    "Homeless": "homeless",
}
HOST_COLUMNS = {"Host": "host", "Node": "node", "Fit": "fits"}


def group_columns(by: str) -> Columns:
    """Columns of the groups of hosts: zones, or values of another metadata key of aggregates."""
    rest = {"Hosts": "hosts", "Fit": "fits", "On hosts": "hosts_used", "Runs out first": "shortages"}
    title = "Zone" if by == AVAILABILITY_ZONE else "Group" if by in rest else by
    return {title: "name", **rest}


def one_flavor_report(name: str, headroom: Headroom) -> Report:
    """One row per zone, or per value of another metadata key."""
    rows = [
        (each.name, each.hosts, each.fits, each.hosts_used, _first(each.shortages, headroom.is_complete))
        for each in headroom.groups
    ]
    columns = tuple(group_columns(headroom.by))
    return Report(headroom_record(name, headroom), columns, rows, caption=_caption(name, headroom))


def hosts_report(name: str, headroom: Headroom) -> Report:
    """One row per host that takes instances."""
    rows = [(each.host, each.node, each.fits) for each in headroom.placed]
    same = frozenset({"Node"} if all(each.host == each.node for each in headroom.placed) else ())
    record, caption = headroom_record(name, headroom), _caption(name, headroom)
    return Report(record, tuple(HOST_COLUMNS), rows, caption=caption, minor=same)


def all_flavors_report(counted: Mapping[str, Counted]) -> Report:
    """One row per flavor, by its name. Each was counted alone; BadInput says why one was not."""
    found = {name: each for name, each in counted.items() if isinstance(each, Headroom)}
    losses = [each.worst_loss for each in found.values() if each.worst_loss]
    columns = tuple(ALL_COLUMNS)
    shown = 4 if not losses else 7 if any(each.homeless for each in losses) else 6
    lines = [f"{next(iter(found.values())).hosts} hosts; each flavor is counted alone, as if all room were for it"]
    lines += [
        f"{name}: counting stopped at {each.fits}, see --most" for name, each in found.items() if not each.is_complete
    ]
    lines += [f"{name}: {each}" for name, each in counted.items() if isinstance(each, BadInput)]
    return Report(
        [headroom_record(name, each) for name, each in counted.items()],
        columns,
        [_row(name, each) for name, each in counted.items()],
        caption="\n".join(lines),
        minor=frozenset(columns[shown:]),
    )


def _row(name: str, counted: Counted) -> tuple[Any, ...]:
    if isinstance(counted, BadInput):
        return name, "", "", "not valid", "", "", ""
    loss = counted.worst_loss
    cells = (loss.fits, loss.host, loss.homeless) if loss else ("", "", "")
    return name, counted.fits, counted.hosts_used, _first(counted.shortages, counted.is_complete), *cells


def summarize(name: str, headroom: Headroom) -> str:
    """One sentence: how many fit, what runs out first, and how many fit after the loss of a host."""
    verb = "fits" if headroom.fits == 1 else "fit"
    if not headroom.is_complete:
        return f"{headroom.fits} more {name} {verb}, and maybe more: counting stopped there, see --most"
    parts = [f"{headroom.fits} more {name} {verb}", *_what_stops(headroom)]
    if headroom.worst_loss:
        parts.append(f"{headroom.worst_loss.fits} after the loss of {headroom.worst_loss.host}")
    return "; ".join(parts)


def _what_stops(headroom: Headroom) -> list[str]:
    if not headroom.shortages:
        return ["there are no hosts"]
    first, hosts = headroom.shortages[0], _hosts(headroom.hosts)
    if not first.ran_out_on:
        return [f"{first.name} rejects {first.hosts} of {hosts}"]
    verb = "runs out first" if first.stage == "capacity" else "is the first limit"
    others = [f"{each.name} on {each.ran_out_on}" for each in headroom.shortages[1:] if each.ran_out_on]
    return [", ".join([f"{first.name} {verb}", f"on {first.ran_out_on} of {hosts}", *others])]


def _caption(name: str, headroom: Headroom) -> str:
    lines = [summarize(name, headroom)]
    lacking = [f"{each.hosts} {each.name}{_in_brackets(each.detail)}" for each in headroom.shortages if each.hosts]
    if headroom.is_complete and lacking:
        lines.append(f"left out in the end: {', '.join(lacking)}")
    if headroom.worst_loss:
        lines += _notes_on(headroom.worst_loss)
    return "\n".join(lines)


def _notes_on(loss: HostLoss) -> list[str]:
    """What to know of the loss of a host, a line each."""
    asked, host = loss.servers + loss.homeless, loss.host
    lines = [f"{host}: {loss.servers} of its {asked} servers placed on other hosts first"] if asked else []
    if loss.homeless:
        lines = [f"{host}: {loss.homeless} of its {asked} servers would find no other host"]
    if loss.unknown_servers:
        lines.append(f"{host}: {loss.unknown_servers} of its servers were left out, as their size is not known")
    if loss.has_unlisted_use:
        lines.append(f"{host}: more is in use than its listed servers take; what is not listed was not placed again")
    if not loss.is_worst_of_all:
        lines.append(f"the loss of {loss.tried} of {loss.candidates} hosts was tried: those with most to lose")
    return lines


def _first(shortages: Sequence[Shortage], is_complete: bool) -> str:
    """What ran out on most hosts; where nothing did, and counting went to the end, what rejects most."""
    if not shortages or not (shortages[0].ran_out_on or is_complete):
        return ""
    return f"{shortages[0].name}, {_hosts(shortages[0].ran_out_on or shortages[0].hosts)}"


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _in_brackets(detail: str) -> str:
    return f" ({detail})" if detail else ""
