# SPDX-License-Identifier: Apache-2.0
"""`Hosts`: rows of a table as arrays, the view that filters and weighers work on.

ATTRIBUTES are those that extra specs and JSON queries may name, each with the column that it depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from roost.hosts.encoded import Array, BoolArray, FloatArray, RowArray
from roost.hosts.view import HostView
from roost.model import group as aggregates
from roost.model.kinds import lazy

if TYPE_CHECKING:
    from roost.hosts.encoded import Encoded
    from roost.hosts.table import HostTable


_MAX_COMBINATION_NUMBERS = 1 << 16
"""More numbers than this are compacted, so that they neither overflow nor need large arrays."""
_MAX_CODES_TO_SCAN = 8
"""Up to so many codes, one comparison per code is faster than counting all codes."""

AnyArray = TypeVar("AnyArray", bound=Array)


class _Column(Generic[AnyArray]):
    """Descriptor of a numeric column: `hosts.free_ram_mb` is an array with one number per host.

    Integers are stored as float64, too (exact up to 2**53): comparing and adding arrays of one type is twice as fast
    as of two.
    """

    def __init__(self, dtype: type[Any], meaning: str) -> None:
        self.dtype = np.dtype(dtype)
        self.meaning = meaning

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, hosts: None, owner: type) -> _Column[AnyArray]: ...
    @overload
    def __get__(self, hosts: Hosts, owner: type) -> AnyArray: ...
    def __get__(self, hosts: Hosts | None, owner: type) -> Any:
        return self if hosts is None else hosts.column(self.name)


def _integer_column(meaning: str) -> _Column[FloatArray]:
    return _Column(np.float64, meaning)


def _float_column(meaning: str) -> _Column[FloatArray]:
    return _Column(np.float64, meaning)


def _bool_column(meaning: str) -> _Column[BoolArray]:
    return _Column(np.bool_, meaning)


class Hosts:
    """Rows of a table, in a given order. Arrays read from it have one entry per row, in that order."""

    total_usable_ram_mb = _integer_column("memory of the host, MiB")
    free_ram_mb = _integer_column("memory free, MiB; negative when overcommitted")
    total_usable_disk_gb = _integer_column("local disk, GiB")
    free_disk_mb = _integer_column("local disk free, MiB; negative when overcommitted")
    disk_mb_used = _integer_column("local disk used, MiB, as reported")
    vcpus_total = _integer_column("physical CPUs")
    vcpus_used = _integer_column("virtual CPUs allocated to instances")
    cpu_allocation_ratio = _float_column("virtual CPUs per physical CPU")
    ram_allocation_ratio = _float_column("overcommit ratio of memory")
    disk_allocation_ratio = _float_column("overcommit ratio of local disk")
    num_instances = _integer_column("instances on the host")
    num_io_ops = _integer_column("I/O-heavy operations running")
    failed_builds = _integer_column("consecutive failed builds")
    hypervisor_version = _integer_column("hypervisor version as an integer: 8002000 is 8.2.0")
    is_up = _bool_column("the latest heartbeat is within `service_down_time`, and the service is not forced down")
    is_disabled = _bool_column("the compute service was disabled by an operator")
    is_bare_metal = _bool_column("the node is bare metal: one instance consumes all of it")

    def __init__(self, table: HostTable, rows: RowArray | None, views: dict[int, HostView]) -> None:
        self._table = table
        self._rows = rows
        """None: all rows of the table, in its order; arrays are then the table's own columns, not copies."""
        self._gathered: dict[str, Array] = {}
        self._views = views

    @property
    def table(self) -> HostTable:
        """The table that the rows belong to."""
        return self._table

    @property
    def rows(self) -> RowArray:
        """The row numbers in the table, in the order of the hosts."""
        return np.arange(len(self._table.names)) if self._rows is None else self._rows

    @property
    def are_all(self) -> bool:
        """Whether this view has all rows of the table, in its order."""
        return self._rows is None

    def __len__(self) -> int:
        return len(self._table.names) if self._rows is None else len(self._rows)

    def row_at(self, position: int) -> int:
        """The row number in the table of the host at a position of this view."""
        return position if self._rows is None else int(self._rows[position])

    def column(self, name: str) -> Array:
        """A numeric column by name, one number per host; gathered on first access and cached."""
        whole = self._table.numbers[name]
        if self._rows is None:
            return whole
        part = self._gathered.get(name)
        if part is None:
            part = self._gathered[name] = whole[self._rows]
        return part

    def codes(self, name: str) -> Array:
        """The codes of a dictionary-encoded column, one per host; gathered on first access and cached."""
        whole = self._table.encoded[name].codes
        if self._rows is None:
            return whole
        part = self._gathered.get(name)
        if part is None:
            part = self._gathered[name] = whole[self._rows]
        return part

    def rows_where(self, mask: BoolArray) -> RowArray:
        """The row numbers of the hosts for which the mask is True."""
        return mask.nonzero()[0] if self._rows is None else self._rows[mask]

    def keep(self, mask: BoolArray) -> Hosts:
        """The hosts for which the mask is True, in their order; this very view if that is all of them."""
        if mask.all():
            return self
        return Hosts(self._table, self.rows_where(mask), self._views)

    def take(self, positions: RowArray) -> Hosts:
        """The hosts at the given positions of this view, in the order of `positions`."""
        return Hosts(self._table, self.rows[positions], self._views)

    def arranged(self, rows: RowArray) -> Hosts:
        """The hosts of this view rearranged: `rows` are their row numbers in the wanted order."""
        return Hosts(self._table, rows, self._views)

    def per_value(self, name: str, rule: Callable[[Any], Any], dtype: type[Any] = np.bool_) -> Array:
        """`rule(value)` for each host, called once per distinct value of an encoded column among these hosts."""
        return self._spread(self._table.encoded[name], self.codes(name), rule, dtype)

    def per_value_of(self, column: Encoded, rule: Callable[[Any], bool]) -> BoolArray:
        """`rule(value)` for each host as a mask, for an encoded column that is not stored in the table."""
        return self._spread(column, column.codes if self._rows is None else column.codes[self._rows], rule, np.bool_)

    def _spread(self, column: Encoded, codes: Array, rule: Callable[[Any], Any], dtype: type[Any]) -> Array:
        """Call `rule` for each code in use and spread its answers to the hosts."""
        values = column.values
        answers = np.zeros(len(values), dtype=dtype)
        for code in column.used() if self._rows is None else _codes_in(codes, len(values)):
            answers[code] = rule(values[code])
        return answers.take(codes)

    def per_combination(
        self, names: Sequence[str], rule: Callable[[HostView], Any], dtype: type[Any] = np.bool_
    ) -> Array:
        """`rule(host)` for each host, called once per distinct combination of values in the named columns.

        The rule gets one host of each combination and must depend on the named columns only.
        """
        key, count = self._combinations(names)
        answers = np.zeros(count, dtype=dtype)
        for number, first in _first_positions(key, count):
            answers[number] = rule(self.view_of(self.row_at(first)))
        return answers.take(key)

    def _combinations(self, names: Sequence[str]) -> tuple[Array, int]:
        """Each host's combination as a number, and an upper bound of the numbers, not all of which need be in use."""
        key, count = self._codes_of(names[0]) if names else (np.zeros(len(self), dtype=np.int64), 1)
        for name in names[1:]:
            codes, distinct = self._codes_of(name)
            key, count = key.astype(np.int64) * distinct + codes, count * distinct
            if count > _MAX_COMBINATION_NUMBERS:
                _, key = np.unique(key, return_inverse=True)
                count = int(key.max()) + 1
        return key, count

    def _codes_of(self, name: str) -> tuple[Array, int]:
        """A code per host for its value in a column of either kind, and the number of codes."""
        if name in self._table.encoded:
            return self.codes(name), len(self._table.encoded[name].values)
        values, codes = np.unique(self.column(name), return_inverse=True)
        return codes, len(values)

    def narrow_candidates(
        self, names: Sequence[str], fits: Callable[[HostView, Mapping[str, Any]], bool]
    ) -> BoolArray:
        """A mask: which hosts have at least one allocation candidate that fits.

        Candidates that do not fit are removed from their host for the rest of the request. If every row has exactly
        one, and no host has its own for this request, nothing is removed, and `fits(host, candidate)` is called once
        per distinct combination of the named columns and the candidate.
        """
        candidates = self._table.encoded["allocation_candidates"].values
        if not self._have_own_candidates() and all(len(each) == 1 for each in candidates):
            columns = [*names, "allocation_candidates"] if len(candidates) > 1 else names
            return self.per_combination(columns, lambda host: fits(host, host.allocation_candidates[0]))
        mask = np.zeros(len(self), dtype=np.bool_)
        for position, host in enumerate(
            self
        ):  # a host with several candidates: an earlier filter may have removed some
            host.allocation_candidates = [each for each in host.allocation_candidates if fits(host, each)]
            mask[position] = bool(host.allocation_candidates)
        return mask

    def have_candidates(self) -> BoolArray:
        """A mask: which hosts have an allocation candidate left in this request."""
        if not self._have_own_candidates():
            return self.per_value("allocation_candidates", bool)
        return np.array([bool(host.allocation_candidates) for host in self], dtype=np.bool_)

    def _have_own_candidates(self) -> bool:
        """Whether a host has candidates of its own for this request, in place of those in its row."""
        return any("allocation_candidates" in vars(view) for view in self._views.values())

    def named(self, hosts: Iterable[str]) -> BoolArray:
        """A mask: which hosts have one of the given names. The cost grows with the names, not with the fleet."""
        rows = [row for host in hosts for row in self._table.rows_of_host(host)]
        mask = np.zeros(len(self._table.names), dtype=np.bool_)
        mask[rows] = True
        return mask if self._rows is None else mask[self._rows]

    @lazy
    def metadata_keys(self) -> frozenset[str]:
        """Every metadata key that an aggregate of a host in the table has; memoised per view."""
        return self._table.metadata_keys

    def aggregate_values(self, key: str) -> list[set[str]]:
        """Per host, the values that its aggregates have under the metadata key `key`, split at commas."""
        return list(self.per_value("aggregates", lambda each: aggregates.split_values(each, key), object))

    def aggregate_min(self, key: str, default: Any, cast: type[int] | type[float] = int) -> Any:
        """Per host, the smallest number that its aggregates have under the metadata key `key`, or else the default.

        If no aggregate has the key, the default is returned as it is, a single number for all hosts.
        """
        if key not in self.metadata_keys:
            return default
        column = self._table.encoded["aggregates"]
        has_number, numbers = column.derive((key, cast), lambda values: _smallest_numbers(values, key, cast))
        codes = self.codes("aggregates")
        if isinstance(default, np.ndarray):
            return np.where(has_number.take(codes), numbers.take(codes), default)
        return np.where(has_number, numbers, default).take(codes)

    def count_instances(self, uuids: Collection[str]) -> Array:
        """Per host, how many of the given instances run on it. Costs the smaller of instances and hosts."""
        uuids = uuids if isinstance(uuids, frozenset) else frozenset(uuids)
        if self._rows is not None and len(self._rows) < len(uuids):
            return np.array([self._table.count_on(row, uuids) for row in self._rows.tolist()], dtype=np.int64)
        rows = [row for uuid in uuids for row in self._table.rows_of_instance(uuid)]
        per_row = np.bincount(rows, minlength=len(self._table.names)) if rows else np.zeros(len(self._table.names))
        return per_row if self._rows is None else per_row[self._rows]

    def view_of(self, row: int) -> HostView:
        """The row as a HostView; the same object for all filters and weighers of a request."""
        view = self._views.get(row)
        if view is None:
            view = self._views[row] = HostView(self._table, row)
        return view

    def written_limits(self, row: int) -> dict[str, Any]:
        """What plugins wrote into `host_state.limits` of a row during this request; empty if nothing."""
        return self._views[row].limits if row in self._views else {}

    def __iter__(self) -> Iterator[HostView]:
        return (self.view_of(int(row)) for row in self.rows)


def _codes_in(codes: Array, count: int) -> Iterable[int]:
    """The codes below `count` that occur in an array of codes, ascending."""
    if count <= _MAX_CODES_TO_SCAN:
        return [code for code in range(count) if (codes == code).any()]
    used: list[int] = np.flatnonzero(np.bincount(codes, minlength=count)).tolist()
    return used


def _first_positions(key: Array, count: int) -> Iterable[tuple[int, int]]:
    """The numbers below `count` that occur in `key`, each with the position where it occurs first."""
    if count <= _MAX_CODES_TO_SCAN:
        firsts = [(number, int((key == number).argmax())) for number in range(count if len(key) else 0)]
        return [(number, first) for number, first in firsts if key[first] == number]
    first = np.full(count, -1, dtype=np.intp)
    first[key[::-1]] = np.arange(len(key))[::-1]  # of several writes to one number the last stays: its first position
    used = np.flatnonzero(first >= 0)
    return zip(used.tolist(), first[used].tolist(), strict=True)


def _smallest_numbers(values: Iterable[Any], key: str, cast: type[int] | type[float]) -> tuple[BoolArray, FloatArray]:
    """Per set of aggregates: whether one of them has a number under `key`, and the smallest such number or 0."""
    found = [aggregates.smallest_value(value, key, cast) for value in values]
    has_number = np.array([number is not None for number in found], dtype=np.bool_)
    return has_number, np.array([0.0 if number is None else number for number in found])


NUMBER_TYPES = {name: each.dtype for name, each in vars(Hosts).items() if isinstance(each, _Column)}
"""Numeric column -> its dtype. Not listed: columns of resource classes, such as `limit:VCPU`, which are float64."""


_UNIQUE_PER_HOST = ("host", "nodename", "hypervisor_hostname", "uuid", "instances", "limits")
_SAME_NAME = (
    "total_usable_ram_mb",
    "free_ram_mb",
    "total_usable_disk_gb",
    "free_disk_mb",
    "disk_mb_used",
    "vcpus_total",
    "vcpus_used",
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
    "disk_allocation_ratio",
    "num_instances",
    "num_io_ops",
    "failed_builds",
    "hypervisor_version",
    "hypervisor_type",
    "host_ip",
    "supported_instances",
    "cpu_info",
    "stats",
    "metrics",
    "service",
    "aggregates",
    "allocation_candidates",
)

ATTRIBUTES: dict[str, str] = (
    dict.fromkeys(_UNIQUE_PER_HOST, "")
    | {name: name for name in _SAME_NAME}
    | {"cell_uuid": "cell", "pci_stats": "pci_pools", "numa_topology": "numa"}
)
"""nova's attribute name -> column of the table; an empty text for attributes whose value is unique per host."""

ATTRIBUTE_COLUMNS = frozenset({*ATTRIBUTES.values(), "instances", "is_up"}) - {""}
"""Every column that an attribute depends on."""


def columns_behind(names: Iterable[str]) -> list[str] | None:
    """The columns that the named attributes depend on, sorted; None if the value of one is unique per host.

    Names that are no attribute are ignored.
    """
    columns = {ATTRIBUTES[name] for name in names if name in ATTRIBUTES}
    if "service" in columns:
        columns.add("is_up")  # `HostView.service` includes it
    return None if "" in columns else sorted(columns)


def attribute_of(host: HostView, name: str) -> Any:
    """The value of an attribute in nova's form, tuples as lists; None for a name that is no attribute."""
    if name not in ATTRIBUTES:
        return None
    return _as_lists(getattr(host, name))


def _as_lists(value: Any) -> Any:
    return [_as_lists(each) for each in value] if isinstance(value, tuple) else value
