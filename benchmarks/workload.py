# SPDX-License-Identifier: Apache-2.0
"""A workload as its YAML file describes it: hosts, rules, requests, expectations. Its name is the file's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from roost.errors import BadInput, FieldError, nearest
from roost.fleet.document import read_document
from roost.fleet.fields import HOST_FIELDS
from roost.model import checks
from roost.model.json_records import from_json

Record = TypeVar("Record")

MEASURES = {
    "cold": ("median_us", "p99_us", "per_instance_us", "ratio_to_plain_loops", "slowest_filter_us", "weighing_us"),
    "stream": ("median_us", "p99_us", "per_second", "placed", "ratio_to_plain_loops"),
    "trace": ("median_us", "p99_us", "worst_us", "per_second", "us_per_decision", "refused"),
    "group": ("median_us", "p99_us", "members_per_second", "hosts_used"),
    "memory": ("bytes_per_host", "megabytes"),
    "claims": ("per_second", "median_ms", "p99_ms", "conflicts_per_1000", "client_us", "server_us"),
    "messages": (
        *("per_second", "median_ms", "p99_ms", "echo_median_ms", "echo_p99_ms", "added_median_ms"),
        *("commit_added_median_ms", "added_to_commit_median_ms"),
    ),
}
"""What each kind of workload measures, and so what may be expected of it."""
_COMPARED = ("cold", "stream", "trace")
DATABASES = ("postgresql", "sqlite")


@dataclass(frozen=True)
class HostGroup:
    """Hosts that are alike but for what is used."""

    share: float
    """How many of the fleet, relative to the shares of the other groups."""
    like: Mapping[str, Any]
    """Fields of a host in a fleet file."""
    used: float | tuple[float, float] = 0.0
    """Part of CPUs, memory and disk (times their ratios) that is given out; drawn per host where it is a range."""
    numa_states: int = 0
    """So many different states of two NUMA cells, shared out evenly; 0: the hosts report no cells."""

    def __post_init__(self) -> None:
        checks.number(self.share, "share", least=0.001)
        checks.known_keys(checks.mapping(self.like, "like"), HOST_FIELDS, "like")
        for bound in self.used_range:
            checks.number(bound, "used", least=0, most=1)
        checks.whole_number(self.numa_states, "numa_states")

    @property
    def used_range(self) -> tuple[float, float]:
        """Least and most; twice the same where all hosts of the group are equal."""
        bounds = self.used if isinstance(self.used, (list, tuple)) else (self.used, self.used)
        if len(bounds) != 2:
            raise FieldError("used", f"{checks.shown(self.used)} is no range", "write a number, or [least, most]")
        return bounds[0], bounds[1]


@dataclass(frozen=True)
class FleetShape:
    """How many hosts, of which kinds, in which zones. Zones share each group evenly."""

    count: int
    groups: tuple[HostGroup, ...]
    zones: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.whole_number(self.count, "count", least=1)
        groups = _take_list(HostGroup, self.groups, "groups")
        if not groups:
            raise FieldError("groups", "is empty")
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "zones", checks.names(self.zones, "zones"))


@dataclass(frozen=True)
class Requests:
    """How many requests, of which sizes, and how they are measured."""

    count: int
    """Of a trace: so many of its first events, creates and deletes together."""
    sizes: str | None = None
    """File in `data/` with the columns vcpus, memory_mb, vms: a size is drawn as often as there are vms of it."""
    events: str | None = None
    """Of a trace, instead of sizes: file in `data/` that says which machines come and go."""
    root_gb: int = 0
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image: Mapping[str, Any] | None = None
    """Image properties that all of them have."""
    project: str | None = None
    zone: str | None = None
    """Availability zone that all of them ask for."""
    instances: int = 1
    """How many instances each of them is for."""
    group: str | None = None
    """All of them are for members of one server group with this policy."""
    compare: int = 0
    """So many of the first are also given to the plain loops; of a trace, to a scheduler that keeps no answers."""
    repeats: int = 5
    """Runs of all requests, each on a fresh scheduler; of cold requests there is one."""

    def __post_init__(self) -> None:
        checks.whole_number(self.count, "count", least=1)
        if bool(checks.optional_text(self.sizes, "sizes")) == bool(checks.optional_text(self.events, "events")):
            raise FieldError("sizes", "there are none, or events too", "name one file in data/")
        checks.whole_number(self.root_gb, "root_gb")
        checks.optional_text(self.zone, "zone")
        checks.whole_number(self.instances, "instances", least=1)
        checks.optional_text(self.group, "group")
        checks.whole_number(self.compare, "compare", most=self.count)
        checks.whole_number(self.repeats, "repeats", least=1)


@dataclass(frozen=True)
class Claims:
    """Who claims at the same time, and where."""

    database: str
    processes: int = 1
    """Schedulers, each with a picture of the fleet and connections of its own."""
    threads: int = 1
    """Requests that each of them works on at a time."""

    def __post_init__(self) -> None:
        if self.database not in DATABASES:
            raise FieldError("database", f"{checks.shown(self.database)} is none", f"one of {', '.join(DATABASES)}")
        checks.whole_number(self.processes, "processes", least=1)
        checks.whole_number(self.threads, "threads", least=1)


@dataclass(frozen=True)
class Messages:
    """Who answers requests that come over the broker, and how many ask at a time."""

    schedulers: int = 1
    """Processes."""
    callers: int = 8

    def __post_init__(self) -> None:
        checks.whole_number(self.schedulers, "schedulers", least=1)
        checks.whole_number(self.callers, "callers", least=1)


@dataclass(frozen=True)
class Expectation:
    """A bound on one measure: on the figure itself, or on its multiple of another workload's."""

    measure: str
    at_least: float | None = None
    at_most: float | None = None
    times: str | None = None
    """Name of the other workload."""

    def __post_init__(self) -> None:
        checks.text(self.measure, "measure")
        checks.optional_text(self.times, "times")
        if (self.at_least is None) == (self.at_most is None):
            raise FieldError("", f"{self.measure} has no bound, or two", "give one of at_least and at_most")
        checks.number(self.bound, "at_most" if self.at_least is None else "at_least")

    @property
    def bound(self) -> float:
        """The number that is not to be passed."""
        return self.at_most if self.at_least is None else self.at_least  # type: ignore[return-value]

    def is_met(self, measured: float) -> bool:
        """On the right side of the bound, or on it."""
        return measured <= self.bound if self.at_least is None else measured >= self.bound

    def __str__(self) -> str:
        sign = "<=" if self.at_least is None else ">="
        return f"{self.measure} {sign} {self.bound:g}" + (f" x {self.times}" if self.times else "")


@dataclass(frozen=True)
class Workload:
    """Everything one file says."""

    path: Path
    kind: str
    """cold: each request to a fresh scheduler; stream: all to one; trace: machines come and go; group: members of
    one server group; memory: what the hosts take, and what requests add to that where there are some; claims: several
    schedulers claim on one database; messages: requests over the broker."""
    description: str
    hosts: FleetShape
    seed: int = 1
    filters: tuple[str, ...] | None = None
    """None: the scheduler's own default."""
    weighers: tuple[str, ...] | None = None
    """None: the scheduler's own default."""
    times_filters: bool = False
    """Time each filter by itself on all hosts, too."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further options: section -> name -> value."""
    requests: Requests | None = None
    claims: Claims | None = None
    messages: Messages | None = None
    grows: bool = False
    """One of those of its kind, on fleets of different sizes, from which the exponent of growth is taken."""
    expectations: tuple[Expectation, ...] = ()

    def __post_init__(self) -> None:
        checks.text(self.description, "description")
        checks.whole_number(self.seed, "seed")
        if self.kind not in MEASURES:
            raise FieldError("kind", f"{checks.shown(self.kind)} is no kind", nearest(str(self.kind), MEASURES))
        checks.flag(self.grows, "grows")
        self._check_requests()
        for at, each in enumerate(self.expectations):
            if each.measure not in MEASURES[self.kind]:
                hint = nearest(each.measure, MEASURES[self.kind])
                raise FieldError(f"expectations[{at}].measure", f"{each.measure} is not measured here", hint)

    def _check_requests(self) -> None:
        """Whether they are what the kind needs."""
        asked = self.requests
        if asked is None:
            if self.kind != "memory":
                raise FieldError("requests", f"a workload of kind {self.kind} needs them")
            return
        if bool(asked.events) != (self.kind == "trace"):
            raise FieldError("requests.events", "a trace has events, and nothing else has", "name sizes instead")
        if bool(asked.group) != (self.kind == "group"):
            raise FieldError("requests.group", "a workload of kind group has one, and no other")
        if bool(self.claims) != (self.kind == "claims"):
            raise FieldError("claims", "a workload of kind claims says who claims where, and no other does")
        if bool(self.messages) != (self.kind == "messages"):
            raise FieldError("messages", "a workload of kind messages says who answers, and no other does")
        if asked.compare and self.kind not in _COMPARED:
            raise FieldError("requests.compare", f"a workload of kind {self.kind} is not compared", "leave it out")

    @property
    def name(self) -> str:
        """What it is called on the command line and in the results."""
        return self.path.stem


def read_workload(path: Path) -> Workload:
    """The workload of a file; BadInput names the file and the field where something is wrong."""
    try:
        return _take_workload(path, dict(checks.mapping(read_document(path), "")))
    except FieldError as error:
        raise BadInput(f"{path.name}: {error.message}", error.hint) from None


def _take_workload(path: Path, document: dict[str, Any]) -> Workload:
    checks.known_keys(document, [each.name for each in dataclasses.fields(Workload) if each.name != "path"])
    parts = dict(document)
    if "hosts" in parts:
        parts["hosts"] = from_json(FleetShape, parts["hosts"], "hosts")
    if "requests" in parts:
        parts["requests"] = from_json(Requests, parts["requests"], "requests")
    if "claims" in parts:
        parts["claims"] = from_json(Claims, parts["claims"], "claims")
    if "messages" in parts:
        parts["messages"] = from_json(Messages, parts["messages"], "messages")
    for rules in parts.keys() & {"filters", "weighers"}:
        parts[rules] = checks.names(parts[rules], rules)
    parts["expectations"] = _take_list(Expectation, parts.get("expectations", ()), "expectations")
    return from_json(Workload, parts | {"path": path})


def _take_list(kind: type[Record], entries: Any, field: str) -> tuple[Record, ...]:
    if not isinstance(entries, (list, tuple)):
        raise FieldError(field, f"{checks.shown(entries)} is not a list")
    return tuple(from_json(kind, each, f"{field}[{at}]") for at, each in enumerate(entries))
