# SPDX-License-Identifier: Apache-2.0
"""Maps new compute hosts to their cells: without a host mapping no server can be built on a host.

nova-scheduler does it where `discover_hosts_in_cells_interval` is set; so does `nova-manage cell_v2 discover_hosts`.
Several of them may run at once: the host of a mapping is unique, and the second one finds it there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError

from roost.errors import DatabaseError
from roost.nova_cloud.databases import (
    Cell,
    CellAddresses,
    compute_nodes,
    host_mappings,
    open_for_writing,
    read_cells,
    writing,
)
from roost.nova_cloud.write_rights import needs_rights
from roost.scheduler.cloud_options import API_DATABASE

LOG = logging.getLogger(__name__)
_IS_UNMAPPED = (compute_nodes.c.mapped == 0) & (compute_nodes.c.deleted == 0)


class HostDiscovery:
    """Looks for compute nodes that are not mapped in all cells, and maps their hosts."""

    def __init__(self, api_url: URL, addresses: CellAddresses, now: Callable[[], datetime]) -> None:
        """Nothing is connected yet."""
        self._api_engine, self._addresses, self._now = open_for_writing(api_url), addresses, now

    def discover(self) -> int:
        """Map the new hosts of all cells, and return their number.

        A cell in which that fails does not keep others from it; its error is raised at the end.
        DatabaseRefused without the right to write.
        """
        with writing(self._api_engine, API_DATABASE) as connection:
            cells = read_cells(connection, self._addresses).cells
        mapped, errors = 0, []
        for cell in cells:
            if cell.is_cell0 or cell.is_disabled:
                continue
            try:
                mapped += self._discover_in(cell)
            except DatabaseError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return mapped

    def _discover_in(self, cell: Cell) -> int:
        with self._open(cell) as connection:
            new = connection.scalars(select(compute_nodes.c.host).where(_IS_UNMAPPED).distinct()).all()
        hosts = sorted(host for host in new if host)
        if not hosts:
            return 0
        mapped = self._map(cell, hosts)
        with self._open(cell) as connection:
            are_new = _IS_UNMAPPED & compute_nodes.c.host.in_(hosts)
            connection.execute(update(compute_nodes).where(are_new).values(mapped=1))
        return mapped

    @contextmanager
    def _open(self, cell: Cell) -> Iterator[Connection]:
        with (
            needs_rights(cell.url, "SELECT, UPDATE", "compute_nodes"),
            writing(open_for_writing(cell.url), cell.option) as connection,
        ):
            yield connection

    def _map(self, cell: Cell, hosts: list[str]) -> int:
        """Write the host mappings that are missing, and return their number."""
        with (
            needs_rights(self._api_engine.url, "SELECT, INSERT", "host_mappings"),
            writing(self._api_engine, API_DATABASE) as connection,
        ):
            return sum(self._map_host(connection, cell, host) for host in hosts)

    def _map_host(self, connection: Connection, cell: Cell, host: str) -> bool:
        known = select(host_mappings.c.cell_id).where(host_mappings.c.host == host)
        there = connection.scalar(known)
        if there is None:
            row = {"host": host, "cell_id": cell.id, "created_at": self._now().astimezone(UTC).replace(tzinfo=None)}
            try:
                connection.execute(insert(host_mappings).values(row))
            except IntegrityError:  # another scheduler, or nova-manage, was faster
                return False
            LOG.info("host %s is mapped to cell %s", host, cell.name)
            return True
        if there != cell.id:
            LOG.warning("host %s has a node in cell %s, and is mapped to another cell: rename it", host, cell.name)
        return False
