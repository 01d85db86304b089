# SPDX-License-Identifier: Apache-2.0
"""The address of the database, as nova writes it: checked, with the driver that Roost brings along."""

from __future__ import annotations

from inspect import signature

from pymysql.connections import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from roost.errors import DatabaseAddressError, nearest

DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}
"""Kind of database -> what speaks with it. An address that names another driver, as nova's may, gets ours."""

MARIADB_PARAMETERS = frozenset(signature(Connection.__init__).parameters) - {"self", "password", "passwd", "user"}

OPTION = "[database] connection"
FORM = "write it as sqlite:////FILE, postgresql://USER:PASSWORD@HOST/NAME or mysql+pymysql://USER:PASSWORD@HOST/NAME"


def take_address(text: str | None) -> URL:
    """The address, or an error that says what is wrong with it but never repeats it: it may hold a password."""
    if not text:
        raise DatabaseAddressError(f"{OPTION} is not set", FORM)
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError):
        raise DatabaseAddressError(f"{OPTION} is no address of a database", FORM) from None
    kind = url.get_backend_name()
    if kind not in DRIVERS:
        raise DatabaseAddressError(f"{OPTION}: {kind[:40]!r} is no kind of database", nearest(kind, DRIVERS))
    if "@" in f"{url.host}{url.database if kind != 'sqlite' else ''}":
        raise DatabaseAddressError(f"{OPTION}: there is an @ too many", "in a password, write %40 for @")
    _check_place(kind, url)
    _check_parameters(kind, url)
    return url.set(drivername=DRIVERS[kind])


def _check_place(kind: str, url: URL) -> None:
    if kind != "sqlite":
        if not url.database:
            raise DatabaseAddressError(f"{OPTION} names no database", FORM)
    elif url.host:
        raise DatabaseAddressError(f"{OPTION} names a host", "a file takes three slashes, with a full path four")
    elif url.database in (None, "", ":memory:") or str(url.database).startswith("file:"):
        raise DatabaseAddressError(f"{OPTION} names no file", "Roost keeps SQLite in a file: sqlite:////FILE")


def _check_parameters(kind: str, url: URL) -> None:
    """PyMySQL and SQLite would fail in the middle of a call; psycopg says itself what it does not know."""
    known = {"sqlite": (), "postgresql": url.query, "postgres": url.query}.get(kind, MARIADB_PARAMETERS)
    for name in url.query:
        if name not in known:
            raise DatabaseAddressError(f"{OPTION} has no parameter {name[:40]!r}", nearest(name, known))


def show_address(url: URL) -> str:
    """What may stand in a message: neither the password nor the parameters, which may hold one too."""
    bare = url.set(drivername=url.get_backend_name(), password=None, query={})
    return bare.render_as_string(hide_password=True)
