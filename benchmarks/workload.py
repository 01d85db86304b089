# SPDX-License-Identifier: Apache-2.0
"""The schema of a workload file: hosts, rules, requests, expectations. The name of the file is the workload's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from roost.errors import BadInput, FieldError, nearest
from roost.model.fields import (
    AT_LEAST_ONE,
    MAPPING,
    NAMES,
    NUMBER,
    Amount,
    Checked,
    Flag,
    FreeMapping,
    ListOf,
    NameTuple,
    OptionalText,
    Record,
    Text,
    refuse_unknown,
)
from roost.model.kinds import Number, OneOf, shown
from roost.sources.documents import parse_document, read_text
from roost.sources.fields import HOST_FIELDS

AtLeastOne = Annotated[int, AT_LEAST_ONE]

MEASURES = {
    "cold": ("median_us", "p99_us", "per_instance_us", "ratio_to_plain_loops", "slowest_filter_us", "weighing_us"),
    "stream": ("median_us", "p99_us", "per_second", "placed", "ratio_to_plain_loops"),
    "trace": ("median_us", "p99_us", "worst_us", "per_second", "us_per_decision", "refused"),
    "group": ("median_us", "p99_us", "members_per_second", "hosts_used"),
    "memory": ("bytes_per_host", "megabytes"),
    "claims": ("per_second", "median_ms", "p99_ms", "conflicts_per_1000", "client_us", "server_us"),
    "ledger": ("plain_per_second", "guest_per_second", "guest_to_plain"),
    "messages": (
        *("per_second", "median_ms", "p99_ms", "echo_median_ms", "echo_p99_ms", "added_median_ms"),
        *("added_ratio", "commit_added_median_ms", "added_to_commit_median_ms"),
    ),
    "recording": ("rate_ratio", "per_second", "per_second_unrecorded"),
    "boots": ("per_second", "median_ms", "p99_ms", "active"),
    "listing": ("median_ms", "p99_ms", "plain_median_ms", "ratio_to_plain"),
    "intake": ("per_second", "median_ms", "p99_ms", "direct_per_second", "rate_ratio"),
    "explain": ("scan_us", "blockers_us", "blockers_to_scan", "explain_us"),
    "headroom": ("per_second", "stream_per_second", "ratio_to_stream", "fits"),
}
"""Kind of workload -> the measures that its expectations may bound."""
_COMPARED = ("cold", "stream", "trace")
DATABASES = ("postgresql", "sqlite")
LISTINGS = ("servers", "hypervisors")


_FRACTION = Number(least=0, most=1)


@dataclass(frozen=True)
class HostGroup(Checked):
    """A group of hosts that differ only in their usage."""

    share: Annotated[float, Number(least=0.001)]
    """Size of the group, relative to the shares of all groups."""
    like: FreeMapping
    """Fields of a host in a fleet file."""
    used: float | tuple[float, float] = 0.0
    """Fraction of CPUs, memory and disk (times their ratios) that is allocated; a range is drawn from per host."""
    numa_states: Amount = 0
    """Number of different states of two NUMA cells, evenly distributed; 0: the hosts report no NUMA cells."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unknown(self.like, HOST_FIELDS, "like")
        for bound in self.used_range:
            _FRACTION.strict(bound, "used")

    @property
    def used_range(self) -> tuple[float, float]:
        """(least, most) of `used`; equal where it is a number."""
        bounds = self.used if isinstance(self.used, (list, tuple)) else (self.used, self.used)
        if len(bounds) != 2:
            raise FieldError("used", f"{shown(self.used)} is no range", "write a number, or [least, most]")
        return bounds[0], bounds[1]


def _check_groups(groups: list[HostGroup]) -> None:
    if not groups:
        raise FieldError("", "is empty")


@dataclass(frozen=True)
class FleetShape(Checked):
    """The fleet: number of hosts, groups, and zones, over which each group is evenly distributed."""

    count: AtLeastOne
    groups: Annotated[tuple[HostGroup, ...], ListOf(Record(HostGroup), rule=_check_groups)]
    zones: NameTuple = ()


@dataclass(frozen=True)
class Requests(Checked):
    """The requests of a workload: number, sizes, common properties, comparison and repeats."""

    count: AtLeastOne
    """Number of requests; of a trace, the number of its first events, creates and deletes."""
    sizes: OptionalText = None
    """File in `data/` with the columns vcpus, memory_mb, vms; sizes are drawn with vms as their weight."""
    events: OptionalText = None
    """For a trace, instead of sizes: file in `data/` with creates and deletes."""
    root_gb: Amount = 0
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image: Mapping[str, Any] | None = None
    """Image properties of all requests; None: no image."""
    project: str | None = None
    zone: OptionalText = None
    """Availability zone of all requests; None: any."""
    instances: AtLeastOne = 1
    """Number of instances per request."""
    group: OptionalText = None
    """Policy of the server group of which all instances are members; None: no group."""
    compare: Amount = 0
    """Number of first requests that are also put to the plain loops; of a trace, to a scheduler without caches."""
    repeats: AtLeastOne = 5
    """Number of runs of all requests, each on a fresh scheduler; cold requests run once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.sizes) == bool(self.events):
            raise FieldError("sizes", "there are none, or events too", "name one file in data/")
        if self.compare > self.count:
            raise FieldError("compare", f"{self.compare} is too large", f"at most {self.count}")


@dataclass(frozen=True)
class Claims(Checked):
    """The schedulers that claim concurrently, and their database."""

    database: Annotated[str, OneOf(DATABASES, "is none", f"one of {', '.join(DATABASES)}")]
    processes: AtLeastOne = 1
    """Number of scheduler processes, each with its own replica and connections."""
    threads: AtLeastOne = 1
    """Number of requests that each scheduler processes concurrently."""


@dataclass(frozen=True)
class Messages(Checked):
    """The schedulers that serve requests over the broker, and their concurrent callers."""

    schedulers: AtLeastOne = 1
    """Number of scheduler processes."""
    callers: AtLeastOne = 8
    """Number of concurrent callers, for the throughput."""


@dataclass(frozen=True)
class Boots(Checked):
    """The processes of a whole cloud, and its concurrent clients."""

    conductors: AtLeastOne = 2
    schedulers: AtLeastOne = 2
    agent_processes: AtLeastOne = 4
    """Number of processes that share the fake hosts."""
    clients: AtLeastOne = 8
    """Number of clients, each of which has one server built at a time."""


@dataclass(frozen=True)
class Expectation(Checked):
    """A bound on one measure: on the figure, or on its ratio to the figure of another workload."""

    measure: Text
    at_least: float | None = None
    at_most: float | None = None
    times: OptionalText = None
    """Name of the other workload; None: the bound is on the figure."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.at_least is None) == (self.at_most is None):
            raise FieldError("", f"{self.measure} has no bound, or two", "give one of at_least and at_most")
        NUMBER.strict(self.bound, "at_most" if self.at_least is None else "at_least")

    @property
    def bound(self) -> float:
        """The value of at_least or at_most, whichever is set."""
        return self.at_most if self.at_least is None else self.at_least  # type: ignore[return-value]

    def is_met(self, measured: float) -> bool:
        """Whether a figure satisfies the bound, which is inclusive."""
        return measured <= self.bound if self.at_least is None else measured >= self.bound

    def __str__(self) -> str:
        sign = "<=" if self.at_least is None else ">="
        return f"{self.measure} {sign} {self.bound:g}" + (f" x {self.times}" if self.times else "")


@dataclass(frozen=True)
class Workload(Checked):
    """One workload file, parsed."""

    path: Path
    kind: str
    """cold: each request to a fresh scheduler; stream: all to one; trace: creates and deletes; group: members of
    one server group; memory: growth by the hosts, and by requests if there are any; claims: several schedulers claim
    on one database; ledger: claims alone, hosts chosen beforehand; messages: requests over the broker; boots: servers
    from request to active, in a cloud of its own; explain: requests that are explained; headroom: how many more
    instances fit, and a stream beside it; listing: a list of the API, beside a plain loop; intake: servers that are
    asked for over the API, and by messages."""
    description: Text
    hosts: FleetShape
    seed: Amount = 1
    filters: tuple[str, ...] | None = None
    """None: the default of the scheduler."""
    weighers: tuple[str, ...] | None = None
    """None: the default of the scheduler."""
    times_filters: bool = False
    """Whether each filter is also timed alone on all hosts."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further options: section -> name -> value."""
    requests: Requests | None = None
    claims: Claims | None = None
    messages: Messages | None = None
    boots: Boots | None = None
    listing: Annotated[str | None, OneOf(LISTINGS, "is none", f"one of {', '.join(LISTINGS)}")] = None
    """What a workload of kind listing lists: its hosts, or as many servers as it has requests."""
    grows: Flag = False
    """Whether the growth exponent of its kind uses this workload."""
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
        """Raise FieldError where the requests do not suit the kind."""
        requests = self.requests
        if requests is None:
            if self.kind != "memory":
                raise FieldError("requests", f"a workload of kind {self.kind} needs them")
            return
        if bool(requests.events) != (self.kind == "trace"):
            raise FieldError("requests.events", "a trace has events, and nothing else has", "name sizes instead")
        if bool(requests.group) != (self.kind == "group"):
            raise FieldError("requests.group", "a workload of kind group has one, and no other")
        if bool(self.claims) != (self.kind in ("claims", "ledger")):
            raise FieldError("claims", "a workload of kind claims or ledger says who claims where, and no other")
        if bool(self.messages) != (self.kind in ("messages", "recording")):
            raise FieldError("messages", "a workload of kind messages or recording says who answers, and no other")
        if bool(self.boots) != (self.kind in ("boots", "intake")):
            raise FieldError("boots", "a workload of kind boots or intake has the processes of a cloud, and no other")
        if bool(self.listing) != (self.kind == "listing"):
            raise FieldError("listing", "a workload of kind listing says what is listed, and no other does")
        if requests.compare and self.kind not in _COMPARED:
            raise FieldError("requests.compare", f"a workload of kind {self.kind} is not compared", "leave it out")

    @property
    def name(self) -> str:
        """Name on the command line and in the results: that of the file."""
        return self.path.stem


def read_workload(path: Path) -> Workload:
    """Parse a workload file. Raises BadInput that names the file and the field."""
    try:
        return _parse_workload(path, dict(MAPPING.strict(parse_document(read_text(path), path)[0], "")))
    except FieldError as error:
        raise BadInput(f"{path.name}: {error.message}", error.hint) from None


_PARTS = {"hosts": FleetShape, "requests": Requests, "claims": Claims, "messages": Messages, "boots": Boots}
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
