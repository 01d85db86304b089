# SPDX-License-Identifier: Apache-2.0
"""nova's cells and the addresses of their databases, from the table `cell_mappings` of the API database."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Connection, select
from sqlalchemy.engine import URL

from roost.errors import DatabaseAddressError
from roost.nova_cloud.databases.read_only_engine import parse_nova_url
from roost.nova_cloud.databases.tables import cell_mappings
from roost.scheduler.cloud_options import CellDatabaseOptions
from roost.store.engine import redacted_url

CELL0_UUID = "00000000-0000-0000-0000-000000000000"
"""The cell of servers that never found a host."""
MOST_CELLS = 1000
"""Cells that are read; nova's largest clouds have some dozens."""
LONGEST_ADDRESS = 10_000
_VARIABLE = re.compile(r"\{([^{}]*)\}")
_COLUMNS = ("id", "uuid", "name", "database_connection", "disabled")


@dataclass(frozen=True)
class Cell:
    """A cell of nova's: a part of the cloud with a database of its own."""

    id: int
    """Its number in host mappings."""
    uuid: str
    name: str
    url: URL
    """Address of its database, with the driver, user and password to use. Its repr has no password."""
    is_disabled: bool = False

    @property
    def is_cell0(self) -> bool:
        """Whether it is the cell of servers that never found a host; it has no hosts."""
        return self.uuid == CELL0_UUID

    @property
    def address(self) -> str:
        """The address of its database for messages: without password and parameters."""
        return redacted_url(self.url)

    @property
    def option(self) -> str:
        """Where its address comes from, for messages."""
        return _option_of(self.name)


class CellList(NamedTuple):
    """All cells whose address is understood, and one line for each other cell."""

    cells: tuple[Cell, ...]
    problems: tuple[str, ...]
    """Why a cell is left out, without its address, which may contain a password."""


class CellAddresses:
    """Makes addresses of cell databases: fills in templates, and replaces user and password if that is configured."""

    def __init__(self, own_connection: str | None = None, options: CellDatabaseOptions | None = None) -> None:
        """`own_connection`: nova's `[database] connection`, whose parts fill in the templates."""
        self._parts = _template_parts(own_connection or "")
        self._options = options or CellDatabaseOptions()

    def url_for(self, name: str, text: str | None) -> URL:
        """The address for the text in the mapping of cell `name`; DatabaseAddressError if it is not understood."""
        option = _option_of(name)
        if text and len(text) > LONGEST_ADDRESS:
            raise DatabaseAddressError(f"{option} is longer than {LONGEST_ADDRESS} characters")
        url = parse_nova_url(self._filled(text or "", option), option)
        if self._options.cell_database_user:
            url = url.set(username=self._options.cell_database_user, password=self._options.cell_database_password)
        return url

    def _filled(self, text: str, option: str) -> str:
        """The address with the parts of `[database] connection` in place of {scheme}, {username} and so on."""
        if "{" not in text:
            return text
        if not self._parts:
            raise DatabaseAddressError(
                f"{option} is a template", "set [database] connection, as in nova's own nova.conf"
            )
        filled = _VARIABLE.sub(lambda match: self._parts.get(match[1], match[0]), text)
        if unknown := [name for name in _VARIABLE.findall(text) if name not in self._parts]:
            known = ", ".join(f"{{{each}}}" for each in self._parts)
            raise DatabaseAddressError(f"{option}: nova has no variable {{{unknown[0][:40]}}}", f"it has {known}")
        return filled


def _option_of(name: str) -> str:
    return f"database_connection in the mapping of cell {name[:100]!r}"


def _template_parts(connection: str) -> dict[str, str]:
    """What stands for each variable of a template. As in nova, a part that is missing is the text `None`."""
    if not connection:
        return {}
    try:
        parts = urlsplit(connection.strip())
        port = parts.port
    except ValueError:
        return {}
    own: dict[str, Any] = {"scheme": parts.scheme, "username": parts.username, "password": parts.password}
    own |= {"hostname": parts.hostname, "path": parts.path.lstrip("/")}
    own |= {"port": port, "query": parts.query, "fragment": parts.fragment}
    return {name: str(each) for name, each in own.items()}


def read_cells(connection: Connection, addresses: CellAddresses) -> CellList:
    """All cells, ordered by number: `connection` is one to the API database."""
    columns = [cell_mappings.c[name] for name in _COLUMNS]
    return make_cells(connection.execute(select(*columns).order_by(cell_mappings.c.id).limit(MOST_CELLS)), addresses)


def make_cells(rows: Iterable[Any], addresses: CellAddresses) -> CellList:
    """The cells of rows of `cell_mappings`; one whose address is not understood becomes a problem."""
    cells, problems = [], []
    for row in rows:
        name = row.name or row.uuid
        try:
            url = addresses.url_for(name, row.database_connection)
        except DatabaseAddressError as error:
            problems.append(f"cell {name} is left out: {error}")
            continue
        cells.append(Cell(row.id, row.uuid, name, url, bool(row.disabled)))
    return CellList(tuple(cells), tuple(problems))
