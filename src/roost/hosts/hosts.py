# SPDX-License-Identifier: Apache-2.0
"""The hosts still in the running: what filters and weighers are given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from roost.hosts.arrays import Array, BoolArray, FloatArray, RowArray
from roost.hosts.view import HostView
from roost.model import aggregate as aggregates
from roost.model.lazy import lazy

if TYPE_CHECKING:
    from roost.hosts.encoded import Encoded
    from roost.hosts.table import HostTable

_FEW_COMBINATIONS = 1 << 16
_VERY_FEW = 8

AnyArray = TypeVar("AnyArray", bound=Array)


class _Column(Generic[AnyArray]):
    """A numeric column: `hosts.free_ram_mb` is an array with one number per host in the running.

    Whole numbers are kept as float64 too (exact up to 2**53): comparing and adding arrays of one type is twice
    as fast as of two.
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


def _whole(meaning: str) -> _Column[FloatArray]:
    return _Column(np.float64, meaning)


def _real(meaning: str) -> _Column[FloatArray]:
    return _Column(np.float64, meaning)


def _truth(meaning: str) -> _Column[BoolArray]:
    return _Column(np.bool_, meaning)


class Hosts:
    """Rows of a table, in an order. Arrays read from it have one entry per row."""

    total_usable_ram_mb = _whole("memory of the host, MiB")
    free_ram_mb = _whole("memory free, MiB; negative when overcommitted")
    total_usable_disk_gb = _whole("local disk, GiB")
    free_disk_mb = _whole("local disk free, MiB; negative when overcommitted")
    disk_mb_used = _whole("local disk used, MiB, as reported")
    vcpus_total = _whole("physical CPUs")
    vcpus_used = _whole("virtual CPUs given out")
    cpu_allocation_ratio = _real("virtual CPUs per physical one")
    ram_allocation_ratio = _real("overcommit of memory")
    disk_allocation_ratio = _real("overcommit of disk")
    num_instances = _whole("instances on the host")
    num_io_ops = _whole("I/O-heavy operations running")
    failed_builds = _whole("builds that failed in a row")
    hypervisor_version = _whole("version as an integer: 8002000 is 8.2.0")
    is_up = _truth("the agent was heard of lately and is not forced down")
    is_disabled = _truth("an operator has taken the host out of service")
    is_bare_metal = _truth("the node is given out whole")

    def __init__(self, table: HostTable, rows: RowArray | None, views: dict[int, HostView]) -> None:
        self._table = table
        self._rows = rows
        """None: all rows of the table, in its order - the arrays then are the table's own, not copies."""
        self._gathered: dict[str, Array] = {}
        self._views = views

    @property
    def table(self) -> HostTable:
        """The table these are rows of."""
        return self._table

    @property
    def rows(self) -> RowArray:
        """Row numbers in the table, in this order."""
        return np.arange(len(self._table.names)) if self._rows is None else self._rows

    @property
    def are_all(self) -> bool:
        """Whether these are all rows of the table, in its order."""
        return self._rows is None

    def __len__(self) -> int:
        return len(self._table.names) if self._rows is None else len(self._rows)

    def row_at(self, position: int) -> int:
        """The table's row of one of these hosts."""
        return position if self._rows is None else int(self._rows[position])

    def column(self, name: str) -> Array:
        """A numeric column by name, gathered for these hosts once."""
        whole = self._table.numbers[name]
        if self._rows is None:
            return whole
        part = self._gathered.get(name)
        if part is None:
            part = self._gathered[name] = whole[self._rows]
        return part

    def codes(self, name: str) -> Array:
        """The codes of a dictionary-encoded column."""
        whole = self._table.encoded[name].codes
        if self._rows is None:
            return whole
        part = self._gathered.get(name)
        if part is None:
            part = self._gathered[name] = whole[self._rows]
        return part

    def rows_where(self, mask: BoolArray) -> RowArray:
        """Row numbers of those where the mask is true."""
        return mask.nonzero()[0] if self._rows is None else self._rows[mask]

    def keep(self, mask: BoolArray) -> Hosts:
        """Those where the mask is true, in the same order."""
        if mask.all():
            return self
        return Hosts(self._table, self.rows_where(mask), self._views)

    def take(self, positions: RowArray) -> Hosts:
        """Those at these positions, in this order."""
        return Hosts(self._table, self.rows[positions], self._views)

    def arranged(self, rows: RowArray) -> Hosts:
        """These hosts, which `rows` are the rows of, in that order."""
        return Hosts(self._table, rows, self._views)

    def per_value(self, name: str, rule: Callable[[Any], Any], dtype: type[Any] = np.bool_) -> Array:
        """`rule(value)` for each host, asked once per distinct value that is in the running."""
        return self._spread(self._table.encoded[name], self.codes(name), rule, dtype)

    def per_value_of(self, column: Encoded, rule: Callable[[Any], bool]) -> BoolArray:
        """The same for a column that is not one of the table's own."""
        return self._spread(column, column.codes if self._rows is None else column.codes[self._rows], rule, np.bool_)

    def _spread(self, column: Encoded, codes: Array, rule: Callable[[Any], Any], dtype: type[Any]) -> Array:
        values = column.values
        answers = np.zeros(len(values), dtype=dtype)
        for code in column.used() if self._rows is None else _codes_in(codes, len(values)):
            answers[code] = rule(values[code])
        return answers.take(codes)

    def per_combination(
        self, names: Sequence[str], rule: Callable[[HostView], Any], dtype: type[Any] = np.bool_
    ) -> Array:
        """`rule(host)` for each host, asked once per distinct combination of these columns.

        The rule is given one host of each combination and must look at nothing but these columns.
        """
        key, count = self._combinations(names)
        answers = np.zeros(count, dtype=dtype)
        for number, first in _firsts_of(key, count):
            answers[number] = rule(self.view_of(self.row_at(first)))
        return answers.take(key)

    def _combinations(self, names: Sequence[str]) -> tuple[Array, int]:
        """For each host the number of its combination, and how many numbers there are; not all need be in use."""
        key, count = self._codes_of(names[0]) if names else (np.zeros(len(self), dtype=np.int64), 1)
        for name in names[1:]:
            codes, distinct = self._codes_of(name)
            key, count = key.astype(np.int64) * distinct + codes, count * distinct
            if count > _FEW_COMBINATIONS:
                _, key = np.unique(
                    key, return_inverse=True
                )  # keeps the numbers small, however many columns there are
                count = int(key.max()) + 1
        return key, count

    def _codes_of(self, name: str) -> tuple[Array, int]:
        """A small integer per host that stands for its value in any column, and how many there are."""
        if name in self._table.encoded:
            return self.codes(name), len(self._table.encoded[name].values)
        values, codes = np.unique(self.column(name), return_inverse=True)
        return codes, len(values)

    def narrow_candidates(
        self, names: Sequence[str], fits: Callable[[HostView, Mapping[str, Any]], bool]
    ) -> BoolArray:
        """Which hosts have an allocation candidate left that fits; those that do not fit are gone for this request.

        Where every host has just one candidate, `fits(host, candidate)` is asked once per distinct combination of
        these columns and the candidate.
        """
        candidates = self._table.encoded["allocation_candidates"].values
        if all(len(each) == 1 for each in candidates):
            columns = [*names, "allocation_candidates"] if len(candidates) > 1 else names
            return self.per_combination(columns, lambda host: fits(host, host.allocation_candidates[0]))
        mask = np.zeros(len(self), dtype=np.bool_)
        for position, host in enumerate(self):  # somebody has a choice: what an earlier filter left of it counts
            host.allocation_candidates = [each for each in host.allocation_candidates if fits(host, each)]
            mask[position] = bool(host.allocation_candidates)
        return mask

    def named(self, hosts: Iterable[str]) -> BoolArray:
        """Which of these hosts bear one of the names. Costs what the list is long, not the fleet."""
        rows = [row for host in hosts for row in self._table.rows_of_host(host)]
        mask = np.zeros(len(self._table.names), dtype=np.bool_)
        mask[rows] = True
        return mask if self._rows is None else mask[self._rows]

    @lazy
    def metadata_keys(self) -> frozenset[str]:
        """Every metadata key that an aggregate of a host in the table has; worked out once per view."""
        return self._table.metadata_keys

    def aggregate_values(self, key: str) -> list[set[str]]:
        """Per host, the values its aggregates give under `key`, split at commas."""
        return list(self.per_value("aggregates", lambda each: aggregates.split_values(each, key), object))

    def aggregate_min(self, key: str, default: Any, cast: type[int] | type[float] = int) -> Any:
        """Per host, the smallest number its aggregates give under `key`; else the default.

        A single number for all hosts comes back as that number.
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
        """Per host, how many of these instances it runs. Costs what the list is long or the hosts are many."""
        uuids = uuids if isinstance(uuids, frozenset) else frozenset(uuids)
        if self._rows is not None and len(self._rows) < len(uuids):
            return np.array([self._table.count_on(row, uuids) for row in self._rows.tolist()], dtype=np.int64)
        rows = [row for uuid in uuids for row in self._table.rows_of_instance(uuid)]
        per_row = np.bincount(rows, minlength=len(self._table.names)) if rows else np.zeros(len(self._table.names))
        return per_row if self._rows is None else per_row[self._rows]

    def view_of(self, row: int) -> HostView:
        """One host as an object; the same object throughout a request."""
        view = self._views.get(row)
        if view is None:
            view = self._views[row] = HostView(self._table, row)
        return view

    def written_limits(self, row: int) -> dict[str, Any]:
        """What people's own filters wrote into `host_state.limits` of that row during this request."""
        return self._views[row].limits if row in self._views else {}

    def __iter__(self) -> Iterator[HostView]:
        return (self.view_of(int(row)) for row in self.rows)


def _codes_in(codes: Array, count: int) -> Iterable[int]:
    """Which of so many codes are there at all."""
    if count <= _VERY_FEW:
        return [code for code in range(count) if (codes == code).any()]
    used: list[int] = np.flatnonzero(np.bincount(codes, minlength=count)).tolist()
    return used


def _firsts_of(key: Array, count: int) -> Iterable[tuple[int, int]]:
    """Which of so many numbers are there at all, each with where it is first."""
    if count <= _VERY_FEW:
        firsts = [(number, int((key == number).argmax())) for number in range(count if len(key) else 0)]
        return [(number, first) for number, first in firsts if key[first] == number]
    first = np.full(count, -1, dtype=np.intp)
    first[key[::-1]] = np.arange(len(key))[::-1]  # of several, the last one written stays: the first
    used = np.flatnonzero(first >= 0)
    return zip(used.tolist(), first[used].tolist(), strict=True)


def _smallest_numbers(values: Iterable[Any], key: str, cast: type[int] | type[float]) -> tuple[BoolArray, FloatArray]:
    """Per set of aggregates: whether one of them gives a number under `key`, and the smallest."""
    found = [aggregates.smallest(value, key, cast) for value in values]
    has_number = np.array([number is not None for number in found], dtype=np.bool_)
    return has_number, np.array([0.0 if number is None else number for number in found])


NUMBER_TYPES = {name: each.dtype for name, each in vars(Hosts).items() if isinstance(each, _Column)}
"""Type of every numeric column; those of resource classes, such as `limit:VCPU`, are float64."""
