# SPDX-License-Identifier: Apache-2.0
"""A workload as its YAML file describes it: hosts, rules, requests, expectations. Its name is the file's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from roost.errors import BadInput, FieldError, nearest
from roost.fleet.document import parse_document, read_text
from roost.fleet.fields import HOST_FIELDS
from roost.validation.containers import ListOf
from roost.validation.display import shown
from roost.validation.kinds import Number, OneOf
from roost.validation.records import Checked, Record, refuse_unknown
from roost.validation.vocabulary import (
    AT_LEAST_ONE,
    MAPPING,
    NAMES,
    NUMBER,
    Amount,
    Flag,
    FreeMapping,
    NameTuple,
    OptionalText,
    Text,
)

AtLeastOne = Annotated[int, AT_LEAST_ONE]

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


_FRACTION = Number(least=0, most=1)


@dataclass(frozen=True)
class HostGroup(Checked):
    """Hosts that are alike but for what is used."""

    share: Annotated[float, Number(least=0.001)]
    """How many of the fleet, relative to the shares of the other groups."""
    like: FreeMapping
    """Fields of a host in a fleet file."""
    used: float | tuple[float, float] = 0.0
    """Part of CPUs, memory and disk (times their ratios) that is given out; drawn per host where it is a range."""
    numa_states: Amount = 0
    """So many different states of two NUMA cells, shared out evenly; 0: the hosts report no cells."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unknown(self.like, HOST_FIELDS, "like")
        for bound in self.used_range:
            _FRACTION.strict(bound, "used")

    @property
    def used_range(self) -> tuple[float, float]:
        """Least and most; twice the same where all hosts of the group are equal."""
        bounds = self.used if isinstance(self.used, (list, tuple)) else (self.used, self.used)
        if len(bounds) != 2:
            raise FieldError("used", f"{shown(self.used)} is no range", "write a number, or [least, most]")
        return bounds[0], bounds[1]


def _check_groups(groups: list[HostGroup]) -> None:
    if not groups:
        raise FieldError("", "is empty")


@dataclass(frozen=True)
class FleetShape(Checked):
    """How many hosts, of which kinds, in which zones. Zones share each group evenly."""

    count: AtLeastOne
    groups: Annotated[tuple[HostGroup, ...], ListOf(Record(HostGroup), rule=_check_groups)]
    zones: NameTuple = ()


@dataclass(frozen=True)
class Requests(Checked):
    """How many requests, of which sizes, and how they are measured."""

    count: AtLeastOne
    """Of a trace: so many of its first events, creates and deletes together."""
    sizes: OptionalText = None
    """File in `data/` with the columns vcpus, memory_mb, vms: a size is drawn as often as there are vms of it."""
    events: OptionalText = None
    """Of a trace, instead of sizes: file in `data/` that says which machines come and go."""
    root_gb: Amount = 0
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image: Mapping[str, Any] | None = None
    """Image properties that all of them have."""
    project: str | None = None
    zone: OptionalText = None
    """Availability zone that all of them ask for."""
    instances: AtLeastOne = 1
    """How many instances each of them is for."""
    group: OptionalText = None
    """All of them are for members of one server group with this policy."""
    compare: Amount = 0
    """So many of the first are also given to the plain loops; of a trace, to a scheduler that keeps no answers."""
    repeats: AtLeastOne = 5
    """Runs of all requests, each on a fresh scheduler; of cold requests there is one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.sizes) == bool(self.events):
            raise FieldError("sizes", "there are none, or events too", "name one file in data/")
        if self.compare > self.count:
            raise FieldError("compare", f"{self.compare} is too large", f"at most {self.count}")


@dataclass(frozen=True)
class Claims(Checked):
    """How many schedulers claim at the same time, and where."""

    database: Annotated[str, OneOf(DATABASES, "is none", f"one of {', '.join(DATABASES)}")]
    processes: AtLeastOne = 1
    """Schedulers, each with a replica of the fleet and connections of its own."""
    threads: AtLeastOne = 1
    """Requests that each of them works on at a time."""


@dataclass(frozen=True)
class Messages(Checked):
    """How many schedulers answer requests that come over the broker, and how many callers ask at a time."""

    schedulers: AtLeastOne = 1
    """Processes."""
    callers: AtLeastOne = 8


@dataclass(frozen=True)
class Expectation(Checked):
    """A bound on one measure: on the figure itself, or on its multiple of another workload's."""

    measure: Text
    at_least: float | None = None
    at_most: float | None = None
    times: OptionalText = None
    """Name of the other workload."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.at_least is None) == (self.at_most is None):
            raise FieldError("", f"{self.measure} has no bound, or two", "give one of at_least and at_most")
        NUMBER.strict(self.bound, "at_most" if self.at_least is None else "at_least")

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
class Workload(Checked):
    """Everything one file says."""

    path: Path
    kind: str
    """cold: each request to a fresh scheduler; stream: all to one; trace: machines come and go; group: members of
    one server group; memory: what the hosts take, and what requests add to that where there are some; claims: several
    schedulers claim on one database; messages: requests over the broker."""
    description: Text
    hosts: FleetShape
    seed: Amount = 1
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
    grows: Flag = False
    """One of those of its kind, on fleets of different sizes, from which the exponent of growth is taken."""
    expectations: tuple[Expectation, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in MEASURES:
            raise FieldError("kind", f"{shown(self.kind)} is no kind", nearest(str(self.kind), MEASURES))
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
        return _parse_workload(path, dict(MAPPING.strict(parse_document(read_text(path), path)[0], "")))
    except FieldError as error:
        raise BadInput(f"{path.name}: {error.message}", error.hint) from None


_PARTS = {"hosts": FleetShape, "requests": Requests, "claims": Claims, "messages": Messages}
_EXPECTATIONS = ListOf(Record(Expectation))


def _parse_workload(path: Path, document: dict[str, Any]) -> Workload:
    refuse_unknown(document, [each.name for each in dataclasses.fields(Workload) if each.name != "path"])
    parts = dict(document)
    for name in parts.keys() & _PARTS:
        parts[name] = Record(_PARTS[name]).strict(parts[name], name)
    for rules in parts.keys() & {"filters", "weighers"}:
        parts[rules] = NAMES.strict(parts[rules], rules)
    parts["expectations"] = _EXPECTATIONS.strict(parts.get("expectations", ()), "expectations")
    return Record(Workload).read(parts | {"path": path})
