# SPDX-License-Identifier: Apache-2.0
"""One host as an object, with the attribute names of nova's HostState."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from roost.hosts.record import Instance, uuid_of
from roost.model import aggregate as aggregates

if TYPE_CHECKING:
    from roost.hosts.numa import HostTopology
    from roost.hosts.pci import Pool
    from roost.hosts.table import HostTable
    from roost.model.aggregate import Aggregate


_REAL = frozenset({"cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"})


def _as_python(name: str, value: float | bool) -> float | int | bool:
    """A number as a Python number: an int wherever the column holds whole numbers."""
    return value if isinstance(value, bool) or name in _REAL or name.startswith("limit:") else int(value)


class HostView:
    """A row of the table. Reads through to it, so what was consumed shows at once.

    People's filters may write to `limits`, and may hang attributes of their own on it, for this request.
    """

    allocation_candidates: list[Any]
    """Ways to serve the request from this host; filters leave those that fit, for this request."""

    def __init__(self, table: HostTable, row: int) -> None:
        self._table = table
        self._row = row
        self.limits: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """Any column: numbers as Python numbers, everything else as its value."""
        if name.startswith("_"):  # copy and pickle ask for such names before the view is set up
            raise AttributeError(name)
        if name in self._table.numbers:
            return _as_python(name, self._table.numbers[name].item(self._row))
        if name in self._table.encoded:
            return self._table.encoded[name].at(self._row)
        raise AttributeError(f"a host has no attribute {name!r}")

    @property
    def table(self) -> HostTable:
        """The table this is a row of."""
        return self._table

    @property
    def host(self) -> str:
        """Name of the service host."""
        return self._table.names[self._row][0]

    @property
    def nodename(self) -> str:
        """Name of the hypervisor node."""
        return self._table.names[self._row][1]

    node = hypervisor_hostname = nodename

    @property
    def uuid(self) -> str:
        """The node's uuid."""
        return self._table.uuids.get(self._row) or uuid_of(self.host, self.nodename)

    @property
    def cell_uuid(self) -> str:
        """The cell the node was read from."""
        return str(self.cell)

    @property
    def aggregates(self) -> list[Aggregate]:
        """The aggregates the host is in."""
        return list(self._table.encoded["aggregates"].at(self._row))

    @property
    def supported_instances(self) -> list[list[str]]:
        """Lists of [architecture, hypervisor type, mode], as nova has them."""
        return [list(each) for each in self._table.encoded["supported_instances"].at(self._row)]

    @property
    def instances(self) -> Mapping[str, Instance]:
        """Instances on the host, by uuid."""
        return MappingProxyType(self._table.instances.get(self._row, {}))

    @property
    def numa_topology(self) -> HostTopology | None:
        """The host's NUMA cells; None where it reports none."""
        topology: HostTopology | None = self._table.encoded["numa"].at(self._row)
        return topology

    @property
    def pci_stats(self) -> list[Pool]:
        """The host's free PCI devices, in pools."""
        return list(self._table.encoded["pci_pools"].at(self._row))

    @property
    def service(self) -> Mapping[str, Any]:
        """The service record, read-only."""
        record = self._table.encoded["service"].at(self._row)
        return MappingProxyType(record.as_record(is_up=bool(self.is_up)))

    def aggregate_values(self, key: str) -> set[str]:
        """The values the host's aggregates give under `key`, split at commas."""
        return aggregates.split_values(self.aggregates, key)

    def aggregate_min(self, key: str, default: Any, cast: type[int] | type[float] = int) -> Any:
        """The smallest number the host's aggregates give under `key`, else the default."""
        number = aggregates.smallest(self.aggregates, key, cast)
        return default if number is None else number

    def __repr__(self) -> str:
        return (
            f"({self.host}, {self.nodename}) ram: {self.free_ram_mb}MB disk: {self.free_disk_mb}MB "
            f"io_ops: {self.num_io_ops} instances: {self.num_instances}"
        )
