# SPDX-License-Identifier: Apache-2.0
"""The URL of the database, in the form of nova's option: parsed, checked, and with the driver that Roost ships."""

from __future__ import annotations

from inspect import signature

from pymysql.connections import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from roost.errors import DatabaseAddressError, nearest

SQLALCHEMY_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}
"""Kind of database -> driver that is used, even if the URL, such as nova's, names another one."""

MARIADB_PARAMETERS = frozenset(signature(Connection.__init__).parameters) - {"self", "password", "passwd", "user"}

OPTION = "[database] connection"
FORM = "write it as sqlite:////FILE, postgresql://USER:PASSWORD@HOST/NAME or mysql+pymysql://USER:PASSWORD@HOST/NAME"


def parse_database_url(text: str | None, option: str = OPTION) -> URL:
    """Parse the URL; DatabaseAddressError if it is wrong, without the URL in it, which may contain a password.

    `option`: where the URL is from, for messages.
    """
    if not text:
        raise DatabaseAddressError(f"{option} is not set", FORM)
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError):
        raise DatabaseAddressError(f"{option} is no address of a database", FORM) from None
    kind = url.get_backend_name()
    if kind not in SQLALCHEMY_DRIVERS:
        raise DatabaseAddressError(
            f"{option}: {kind[:40]!r} is no kind of database", nearest(kind, SQLALCHEMY_DRIVERS)
        )
    if "@" in f"{url.host}{url.database if kind != 'sqlite' else ''}":
        raise DatabaseAddressError(f"{option}: there is an @ too many", "in a password, write %40 for @")
    _check_place(kind, url, option)
    _check_parameters(kind, url, option)
    return url.set(drivername=SQLALCHEMY_DRIVERS[kind])


def _check_place(kind: str, url: URL, option: str) -> None:
    if kind != "sqlite":
        if not url.database:
            raise DatabaseAddressError(f"{option} names no database", FORM)
    elif url.host:
        raise DatabaseAddressError(f"{option} names a host", "a file takes three slashes, with a full path four")
    elif url.database in (None, "", ":memory:") or str(url.database).startswith("file:"):
        raise DatabaseAddressError(f"{option} names no file", "Roost keeps SQLite in a file: sqlite:////FILE")


def _check_parameters(kind: str, url: URL, option: str) -> None:
    """DatabaseAddressError for a parameter on which PyMySQL or SQLite would fail later; psycopg checks its own."""
    known = {"sqlite": (), "postgresql": url.query, "postgres": url.query}.get(kind, MARIADB_PARAMETERS)
    for name in url.query:
        if name not in known:
            raise DatabaseAddressError(f"{option} has no parameter {name[:40]!r}", nearest(name, known))


def redacted_url(url: URL) -> str:
    """The URL for messages: without the password, and without query parameters, which may contain one too."""
    redacted = url.set(drivername=url.get_backend_name(), password=None, query={})
    return redacted.render_as_string(hide_password=True)
