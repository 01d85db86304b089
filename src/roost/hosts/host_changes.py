# SPDX-License-Identifier: Apache-2.0
"""What remedies of filters and checks have in common: how to name a host, make room on it, label or move it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roost.hosts.view import HostView
from roost.model.remedy import AggregateChange, Change, HostChange, OptionChange, Remedy


def name_of(host: HostView) -> str:
    """The name by which a change finds the host: the node's, where the host has several nodes."""
    return host.host if len(host.table.rows_of_host(host.host)) == 1 else host.nodename


def change_host(host: HostView, field: str, value: Any) -> HostChange:
    """A change of one field of the host."""
    return HostChange(name_of(host), field, value)


def count_of(number: float, what: str) -> str:
    """A number with what is counted: `1,024 MiB of memory`, `1 CPU`, `2 CPUs`."""
    return f"{number:,} {what.removesuffix('s') if number == 1 else what}"


def room_remedy(
    host: HostView,
    what: str,
    *,
    asked: int,
    left: float,
    most: float,
    free: Callable[[int], HostChange],
    ask: Callable[[int], Sequence[Change]],
) -> Remedy | None:
    """How the amount `asked` can fit: free what is missing, or ask for less where no host like this has so much.

    `left`: what the host can give now; `most`: what it could give to one instance if it were empty. `free` and `ask`
    give the changes, for the amount to free and the amount to ask for.
    """
    if not most >= 1:  # nothing to give, so no amount to ask for; also where it is NaN
        return None
    most = math.floor(most)
    fits_now = math.floor(min(left, most))
    if asked > most and fits_now >= 1:
        changes = ask(fits_now)
        return Remedy(f"ask for at most {count_of(fits_now, what)}", tuple(changes)) if changes else None
    missing = math.ceil(min(asked, most) - left)
    text = f"free {count_of(missing, what)} on {name_of(host)}"
    if asked > most:
        changes = ask(most)
        return Remedy(f"{text}, and ask for at most {most:,}", (free(missing), *changes)) if changes else None
    can_ask = fits_now >= 1 and ask(fits_now)
    return Remedy(f"{text}, or ask for at most {fits_now:,}" if can_ask else text, (free(missing),))


def enable(host: HostView) -> Remedy:
    """How to enable the compute service of a host."""
    return Remedy(f"enable it: roost host enable {host.host}", change_service(host, disabled=False))


def change_service(host: HostView, **fields: bool) -> tuple[Change, ...]:
    """Changes of the compute service of a host, which all its nodes share; without those that change nothing."""
    service = host.service
    changed = {name: value for name, value in fields.items() if service[name] is not value}
    return tuple(HostChange(host.host, f"service.{name}", value) for name, value in changed.items())


def limit_remedy(host: HostView, name: str, limit: int, instead: str) -> Remedy:
    """How to raise a limit: in every aggregate of the host that sets a lower one, or else the option of that name.

    `instead`: what else would help, in words.
    """
    if host.aggregate_min(name, default=None) is None:
        return Remedy(f"{instead}, or raise {name} to {limit:,}", (OptionChange("filter_scheduler", name, limit),))
    lower = [each.name for each in host.aggregates if int(each.metadata.get(name, limit)) < limit]
    changes = (AggregateChange(each, name, str(limit)) for each in lower)
    return Remedy(f"{instead}, or raise {name} in {plural('aggregate', lower)} to {limit:,}", tuple(changes))


def label(host: HostView, metadata: Mapping[str, str]) -> tuple[str, tuple[Change, ...]]:
    """How to set metadata for a host, in words and as data: in an aggregate of it, or in a new one."""
    words = " and ".join(f"{key}={value}" for key, value in metadata.items())
    if not host.aggregates:
        new = {"name": f"{name_of(host)}-{'-'.join(metadata)}", "metadata": dict(metadata)}
        text = f"put {name_of(host)} into an aggregate with {words}"
        return text, (change_host(host, "aggregates", [new]),)
    chosen = next((each for each in host.aggregates if metadata.keys() & each.metadata.keys()), host.aggregates[0])
    changes = (AggregateChange(chosen.name, key, value) for key, value in metadata.items())
    return f"set {words} in the metadata of aggregate {chosen.name}", tuple(changes)


def extend_label(host: HostView, key: str, value: str) -> tuple[str, Change]:
    """How to add a value to the metadata list under `key`, in words and as data, where an aggregate has the key."""
    chosen = next(each for each in host.aggregates if key in each.metadata)
    text = f"add {value} to {key} of aggregate {chosen.name}"
    return text, AggregateChange(chosen.name, key, f"{chosen.metadata[key]},{value}")


def move_into(host: HostView, aggregates: Sequence[str]) -> tuple[str, Change]:
    """How to put a host into further aggregates, in words and as data."""
    names = [each.name for each in host.aggregates]
    text = f"put {name_of(host)} into {plural('aggregate', aggregates)}"
    return text, change_host(host, "aggregates", [*names, *aggregates])


def move_out_of(host: HostView, aggregates: Sequence[str]) -> tuple[str, Change]:
    """How to take a host out of aggregates, in words and as data."""
    left = [each.name for each in host.aggregates if each.name not in aggregates]
    text = f"take {name_of(host)} out of {plural('aggregate', aggregates)}"
    return text, change_host(host, "aggregates", left)


def plural(what: str, names: Sequence[str]) -> str:
    """A word with the names of what it is said of: `aggregate red`, `aggregates red, blue`."""
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}"
