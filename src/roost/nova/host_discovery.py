# SPDX-License-Identifier: Apache-2.0
"""Maps new compute hosts to their cells: without a host mapping no server can be built on a host.

nova-scheduler does it where `discover_hosts_in_cells_interval` is set; so does `nova-manage cell_v2 discover_hosts`.
Several of them may run at once: the host of a mapping is unique, and the second one finds it there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError

from roost.errors import DatabaseError, DatabaseReadOnly, DatabaseRefused
from roost.nova.databases.api import Cell, CellAddresses, read_cells
from roost.nova.databases.engines import open_for_writing, writing
from roost.nova.databases.written_tables import compute_nodes, host_mappings
from roost.nova.write_rights import REFUSED_SECONDS, needs_rights
from roost.scheduler.cloud_options import API_DATABASE
from roost.store.transactions import map_driver_error

LOG = logging.getLogger(__name__)
_IS_UNMAPPED = (compute_nodes.c.mapped == 0) & (compute_nodes.c.deleted == 0)


class HostDiscovery:
    """Looks for compute nodes that are not mapped in all cells, and maps their hosts."""

    def __init__(self, api_url: URL, addresses: CellAddresses, now: Callable[[], datetime]) -> None:
        """Nothing is connected yet."""
        self._api_engine, self._addresses, self._now = open_for_writing(api_url), addresses, now
        self._refused: dict[str, tuple[datetime, DatabaseError]] = {}

    def discover(self) -> int:
        """Map the new hosts of all cells, and return their number.

        A cell in which that fails does not keep others from it; the errors are raised at the end. DatabaseRefused if
        all cells refuse to be written to; one of several is tried again after REFUSED_SECONDS.
        """
        with writing(self._api_engine, API_DATABASE) as connection:
            cells = read_cells(connection, self._addresses).cells
        searched = [cell for cell in cells if not cell.is_cell0 and not cell.is_disabled]
        mapped, errors = 0, []
        for cell in searched:
            try:
                mapped += self._discover_unless_refused(cell, is_only=len(searched) == 1)
            except DatabaseError as error:
                errors.append(error)
        if errors:
            raise _join(errors, are_all=len(errors) == len(searched))
        return mapped

    def _discover_unless_refused(self, cell: Cell, is_only: bool) -> int:
        """Map the new hosts of a cell; the error of the last attempt again if it refused that a short while ago."""
        if (refused := self._refused.pop(cell.uuid, None)) and not is_only:
            moment, error = refused
            if timedelta(0) <= self._now() - moment < timedelta(seconds=REFUSED_SECONDS):
                self._refused[cell.uuid] = refused
                raise error
        try:
            return self._discover_in(cell)
        except (DatabaseRefused, DatabaseReadOnly) as error:
            self._refused[cell.uuid] = self._now(), error
            raise

    def _discover_in(self, cell: Cell) -> int:
        with self._open(cell) as connection:
            new = connection.scalars(select(compute_nodes.c.host).where(_IS_UNMAPPED).distinct()).all()
        hosts = sorted(host for host in new if host)
        if not hosts:
            return 0
        count, failures = self._map(cell, hosts)
        with self._open(cell) as connection:
            are_mapped = _IS_UNMAPPED & compute_nodes.c.host.in_([host for host in hosts if host not in failures])
            connection.execute(update(compute_nodes).where(are_mapped).values(mapped=1))
        if failures:
            raise _join(list(failures.values()), are_all=True)
        return count

    @contextmanager
    def _open(self, cell: Cell) -> Iterator[Connection]:
        with (
            needs_rights(cell.url, "SELECT, UPDATE", "compute_nodes"),
            writing(open_for_writing(cell.url), cell.option) as connection,
        ):
            yield connection

    def _map(self, cell: Cell, hosts: list[str]) -> tuple[int, dict[str, DatabaseError]]:
        """Write the host mappings that are missing: their number, and why hosts have none all the same."""
        count, failures = 0, {}
        with (
            needs_rights(self._api_engine.url, "SELECT, INSERT", "host_mappings"),
            writing(self._api_engine, API_DATABASE) as connection,
        ):
            for host in hosts:
                try:
                    count += self._map_host(connection, cell, host)
                except IntegrityError as error:
                    problem = map_driver_error(error, self._api_engine.url, API_DATABASE)
                    message = f"host {host} cannot be mapped to cell {cell.name}: {problem.message}"
                    failures[host] = DatabaseError(message, "look at cell_mappings and host_mappings")
        return count, failures

    def _map_host(self, connection: Connection, cell: Cell, host: str) -> bool:
        """Whether a mapping was written; IntegrityError if the host has none and cannot get one."""
        known = select(host_mappings.c.cell_id).where(host_mappings.c.host == host)
        there = connection.scalar(known)
        if there is None:
            row = {"host": host, "cell_id": cell.id, "created_at": self._now().astimezone(UTC).replace(tzinfo=None)}
            try:
                connection.execute(insert(host_mappings).values(row))
            except IntegrityError:
                there = connection.scalar(known)
                if there is None:  # not that another scheduler, or nova-manage, was faster
                    raise
            else:
                LOG.info("host %s is mapped to cell %s", host, cell.name)
                return True
        if there != cell.id:
            LOG.warning("host %s has a node in cell %s, and is mapped to another cell: rename it", host, cell.name)
        return False


def _join(errors: list[DatabaseError], are_all: bool) -> DatabaseError:
    """One error that says all of them; it is a refusal only if `are_all`, and each of them is one."""
    refusals = (DatabaseRefused, DatabaseReadOnly)
    if len(errors) == 1 and (are_all or not isinstance(errors[0], refusals)):
        return errors[0]
    is_refusal = are_all and all(isinstance(each, refusals) for each in errors)
    return (DatabaseRefused if is_refusal else DatabaseError)("; ".join(dict.fromkeys(map(str, errors))), "")
