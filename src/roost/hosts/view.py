# SPDX-License-Identifier: Apache-2.0
"""One host as an object, `HostView`, with the attribute names of nova's HostState."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roost.hosts.instances import HostedInstances, instances_at
from roost.hosts.record import Metric, MetricList, default_node_uuid
from roost.model import group as aggregates
from roost.model.kinds import FrozenDict

if TYPE_CHECKING:
    from roost.hosts.numa_cells import HostTopology
    from roost.hosts.pci import Pool
    from roost.hosts.table import HostTable
    from roost.model.group import Aggregate


_FLOAT_COLUMNS = frozenset({"cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"})


def _as_python(name: str, value: float | bool) -> float | int | bool:
    """A number of a column as a Python number: an int for columns that hold integers."""
    return value if isinstance(value, bool) or name in _FLOAT_COLUMNS or name.startswith("limit:") else int(value)


class HostView:
    """A row of the table. Attributes are read from the table on each access, so they are never stale.

    Plugins may write to `limits`, and may set attributes of their own; they last for the request.
    """

    allocation_candidates: list[Any]
    """The allocation candidates of this host; filters remove those that do not fit, for this request."""

    updated: None = None
    """nova's time of the last change; always None, because changes have version numbers instead."""
    capabilities: Mapping[str, Any] = FrozenDict()
    """Capabilities that agents sent in releases up to Icehouse; always empty."""

    def __init__(self, table: HostTable, row: int) -> None:
        self._table = table
        self._row = row
        self.limits: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """The value of a column: a Python number for numeric columns, the decoded value for others."""
        if name.startswith("_"):  # copy and pickle look up these names before __init__ has run
            raise AttributeError(name)
        if name in self._table.numbers:
            return _as_python(name, self._table.numbers[name].item(self._row))
        if name in self._table.encoded:
            return self._table.encoded[name].at(self._row)
        raise AttributeError(f"a host has no attribute {name!r}")

    @property
    def table(self) -> HostTable:
        """The table that the row belongs to."""
        return self._table

    @property
    def row(self) -> int:
        """The row number in the table."""
        return self._row

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
        """The uuid of the node; derived from its names if the source gave none."""
        return self._table.uuids.get(self._row) or default_node_uuid(self.host, self.nodename)

    @property
    def cell_uuid(self) -> str:
        """The nova cell that the node was read from."""
        return str(self.cell)

    @property
    def aggregates(self) -> list[Aggregate]:
        """The aggregates that the host belongs to."""
        return list(self._table.encoded["aggregates"].at(self._row))

    @property
    def metrics(self) -> MetricList | None:
        """The metrics that the agent reports; None if it reports no list of them."""
        reported = self._table.encoded["metrics"].at(self._row)
        return None if reported is None else MetricList(map(Metric.of, reported))

    @property
    def supported_instances(self) -> list[list[str]]:
        """Lists of [architecture, hypervisor type, mode], as nova has them."""
        return [list(each) for each in self._table.encoded["supported_instances"].at(self._row)]

    @property
    def instances(self) -> HostedInstances:
        """The instances on the host, by uuid."""
        return instances_at(self._table, self._row)

    @property
    def numa_topology(self) -> HostTopology | None:
        """The host's NUMA cells; None if it reports none."""
        topology: HostTopology | None = self._table.encoded["numa"].at(self._row)
        return topology

    @property
    def pci_stats(self) -> list[Pool]:
        """The host's free PCI devices, in pools of equal devices."""
        return list(self._table.encoded["pci_pools"].at(self._row))

    @property
    def service(self) -> Mapping[str, Any]:
        """The compute service's record, read-only."""
        record = self._table.encoded["service"].at(self._row)
        return FrozenDict(record.as_record(is_up=bool(self.is_up)))

    @property
    def vm_states(self) -> dict[str, int]:
        """vm_state -> number of instances in it, from the agent's stats."""
        return self._stats_with_prefix("num_vm_")

    @property
    def task_states(self) -> dict[str, int]:
        """task_state -> number of instances in it, from the agent's stats."""
        return self._stats_with_prefix("num_task_")

    @property
    def num_instances_by_project(self) -> dict[str, int]:
        """Project id -> number of instances, from the agent's stats."""
        return self._stats_with_prefix("num_proj_")

    @property
    def num_instances_by_os_type(self) -> dict[str, int]:
        """Operating system type -> number of instances, from the agent's stats."""
        return self._stats_with_prefix("num_os_type_")

    def _stats_with_prefix(self, prefix: str) -> dict[str, int]:
        return {name.removeprefix(prefix): int(text) for name, text in self.stats.items() if name.startswith(prefix)}

    def aggregate_values(self, key: str) -> set[str]:
        """The values that the host's aggregates have under the metadata key `key`, split at commas."""
        return aggregates.split_values(self.aggregates, key)

    def aggregate_min(self, key: str, default: Any, cast: type[int] | type[float] = int) -> Any:
        """The smallest number that the host's aggregates have under the metadata key `key`, or else the default."""
        number = aggregates.smallest_value(self.aggregates, key, cast)
        return default if number is None else number

    def __repr__(self) -> str:
        return (
            f"({self.host}, {self.nodename}) ram: {self.free_ram_mb}MB disk: {self.free_disk_mb}MB "
            f"io_ops: {self.num_io_ops} instances: {self.num_instances}"
        )
