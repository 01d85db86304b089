# SPDX-License-Identifier: Apache-2.0
"""Sends a batch to PostgreSQL by libpq's own pipeline mode.

psycopg's `Connection.pipeline` does the same, and needs three times the processor for it: each statement is a cursor
with adapters of its own. Here all statements are known and their values are texts, so libpq, which psycopg wraps as
`psycopg.pq`, is enough. Transactions stay psycopg's and SQLAlchemy's: both ask libpq whether one is open.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from sqlalchemy import Connection, Engine, Executable, event
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

from roost.errors import DatabaseConflict
from roost.store.engine import has_news
from roost.store.statement_batch import Statement, StatementResult

_LINE = "roost_line"
"""Name in the `info` of a connection, which lasts as long as the driver's."""
_DONE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_DIALECT = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
_numbers = count(1)


class _Compiled(NamedTuple):
    """A statement in the server's words."""

    name: bytes
    text: bytes
    parameters: tuple[str, ...] = ()
    constants: Mapping[str, Any] = MappingProxyType({})
    """Values that the statement itself has for some of them."""


_Filled = tuple[_Compiled, list[bytes | None]]
_BEGIN: _Filled = (_Compiled(b"roost_begin", b"BEGIN ISOLATION LEVEL READ COMMITTED"), [])


def send_together(connection: Connection, requests: Iterable[Statement]) -> list[StatementResult]:
    """See `batches.send`."""
    line = _line_of(connection)
    with _talking(connection, line):
        return line.send([_fill(_compile(statement), values) for statement, values in requests])


class PersistentPipeline:
    """A connection that is kept, for statements that are transactions of their own. For one thread at a time.

    To take a connection from the pool, give it back and have it looked at costs as much as what is said over it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: tuple[Connection, _Pipeline] | None = None
        pool: Any = engine.pool
        self._is_the_only_one = pool.size() == 1 and pool._max_overflow == 0
        """There is nothing to keep then: others wait for it."""
        event.listen(engine, "engine_disposed", lambda _: self.close())

    def send(self, request: Statement) -> StatementResult:
        """The answer, once it is committed."""
        if self._kept is None or self._kept[1].has_news():
            self.close()
            connection = self._engine.connect()
            self._kept = connection, _line_of(connection)
        connection, line = self._kept
        try:
            with _talking(connection, line):
                return line.send_alone(_fill(_compile(request.statement), request.values))
        except BaseException:
            if connection.invalidated:
                self.close()
            raise
        finally:
            if self._is_the_only_one and self._kept:
                connection.close()
                self._kept = None

    def close(self) -> None:
        """Let go of the connection; the next statement opens another."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept[0].invalidate()
            kept[0].close()


def _line_of(connection: Connection) -> _Pipeline:
    line: _Pipeline | None = connection.info.get(_LINE)
    if line is None:
        line = connection.info[_LINE] = _Pipeline(connection.connection.driver_connection)
    return line


class _talking:  # noqa: N801 - used as a statement
    """While it is open, something is said over the line: errors leave as SQLAlchemy has them.

    A class, because a generator with `contextmanager` takes as long as all else that is done here.
    """

    def __init__(self, connection: Connection, line: _Pipeline) -> None:
        self._connection, self._line = connection, line

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(error, psycopg.Error):
            raise _as_sqlalchemy_has_it(self._connection, error, self._line.is_usable()) from error
        self._connection.invalidate()  # answers may be under way that nobody would take for what they are


def _as_sqlalchemy_has_it(connection: Connection, error: psycopg.Error, is_usable: bool) -> BaseException:
    if not is_usable:
        connection.invalidate(error)
    return DBAPIError.instance(
        None,
        None,
        error,
        psycopg.Error,
        hide_parameters=True,
        connection_invalidated=not is_usable,
        dialect=_DIALECT,
    )


@lru_cache(maxsize=512)
def _compile(statement: Executable) -> _Compiled:
    compiled = statement.compile(dialect=_DIALECT)  # type: ignore[attr-defined]
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    name = b"roost_%d" % next(_numbers)
    return _Compiled(name, compiled.string.encode(), tuple(compiled.positiontup or ()), constants)


class _Pipeline:
    """What is kept for a connection: which statements its server process knows by their names."""

    def __init__(self, driver: Any) -> None:
        self._driver, self._libpq = driver, driver.pgconn
        self._loader: Any = Transformer(driver)
        self._prepared: set[bytes] = set()
        self._times_forgotten = 0
        self._may_prepare = driver.prepare_threshold is not None  # an address may forbid it: some poolers cannot
        self._poll = select.poll()
        self._poll.register(self._libpq.socket, select.POLLIN)

    def has_news(self) -> bool:
        """Whether the server said something that nobody asked for, or has hung up."""
        return has_news(self._driver)

    def is_usable(self) -> bool:
        """Whether the connection is there, and nothing is under way on it."""
        return self._libpq.status == ConnStatus.OK and not self._libpq.pipeline_status

    def send(self, filled: list[_Filled]) -> list[StatementResult]:
        """The answers, one per statement; in a new transaction, if there is none.

        After a rollback, psycopg may have the server forget all names, ours too. `BEGIN` has a name like others, so
        that this is found out before anything is done. Only a transaction that began without a batch has to be tried
        again by whoever began it.
        """
        if self._libpq.transaction_status != TransactionStatus.IDLE:
            try:
                return self._make_trip(filled)
            except psycopg.errors.InvalidSqlStatementName as error:
                raise DatabaseConflict("the database has forgotten its statements", "try again") from error
        try:
            return self._make_trip([_BEGIN, *filled])[1:]
        except psycopg.errors.InvalidSqlStatementName:
            self._begin_anew()
            return self._make_trip([_BEGIN, *filled])[1:]

    def send_alone(self, filled: _Filled) -> StatementResult:
        """The answer to a statement that is a transaction: it ends with the trip."""
        name = self._name_of(filled[0])
        if name not in self._prepared:
            return self._make_trip([filled])[0]
        try:
            result = self._libpq.exec_prepared(name, filled[1])
            if self._libpq.status != ConnStatus.OK:
                raise psycopg.OperationalError(self._libpq.get_error_message())
            _raise_first_failure([result])
            return self._answer(result)
        except psycopg.errors.InvalidSqlStatementName:
            self._begin_anew()
            return self._make_trip([filled])[0]

    def _name_of(self, compiled: _Compiled) -> bytes:
        return b"%s_%d" % (compiled.name, self._times_forgotten)

    def _begin_anew(self) -> None:
        """With other names: of the old ones the server may know some still, and would not have them given twice."""
        self._prepared.clear()
        self._times_forgotten += 1

    def _make_trip(self, filled: list[_Filled]) -> list[StatementResult]:
        """Everything is sent, then everything is read."""
        self._libpq.enter_pipeline_mode()
        sent = list(self._send(filled))
        self._libpq.pipeline_sync()
        self._flush()
        results = self._read()
        self._libpq.exit_pipeline_mode()
        for name, result in zip(sent, results, strict=True):
            if name and result.status in _DONE:
                self._prepared.add(name)
        _raise_first_failure(results)
        return [self._answer(result) for name, result in zip(sent, results, strict=True) if name is None]

    def _send(self, filled: list[_Filled]) -> Iterator[bytes | None]:
        """For each result that will come: None for an answer, or the name that the server knows then."""
        new: set[bytes] = set()
        for compiled, values in filled:
            if not self._may_prepare:
                self._libpq.send_query_params(compiled.text, values)
            else:
                name = self._name_of(compiled)
                if name not in self._prepared and name not in new:
                    self._libpq.send_prepare(name, compiled.text)
                    new.add(name)
                    yield name
                self._libpq.send_query_prepared(name, values)
            yield None

    def _flush(self) -> None:
        """A server that is not rid of its answers takes no more requests: both ways at once."""
        while self._libpq.flush():
            self._poll.modify(self._libpq.socket, select.POLLIN | select.POLLOUT)
            if any(happened & ~select.POLLOUT for _, happened in self._poll.poll()):
                self._libpq.consume_input()
            self._poll.modify(self._libpq.socket, select.POLLIN)

    def _read(self) -> list[Any]:
        """All results up to the end of the batch; what the server said last, where it went away."""
        libpq, results = self._libpq, list[Any]()
        try:
            while True:
                while libpq.is_busy():
                    self._poll.poll()
                    libpq.consume_input()
                result = libpq.get_result()
                if result is None:
                    if libpq.status != ConnStatus.OK:
                        raise psycopg.OperationalError(libpq.get_error_message())
                elif result.status == ExecStatus.PIPELINE_SYNC:
                    return results
                else:
                    results.append(result)
        except psycopg.OperationalError:
            _raise_first_failure(results)
            raise

    def _answer(self, result: Any) -> StatementResult:
        if result.status == ExecStatus.COMMAND_OK:
            return StatementResult((), result.command_tuples or 0)
        self._loader.set_pgresult(result)
        return StatementResult(self._loader.load_rows(0, result.ntuples, tuple), result.ntuples)


def _raise_first_failure(results: list[Any]) -> None:
    for result in results:
        if result.status not in _DONE:
            raise psycopg.errors.error_from_result(result)


def _fill(compiled: _Compiled, values: Any) -> _Filled:
    known = {**compiled.constants, **values} if compiled.constants else values
    return compiled, [_as_bytes(known[name]) for name in compiled.parameters]


def _as_bytes(value: Any) -> bytes | None:
    """As PostgreSQL writes it. libpq would take a NUL for the end of the text."""
    if value is None:
        return None
    text = "{" + ",".join(map(_quoted, value)) + "}" if isinstance(value, list) else str(value)
    if "\0" in text:
        raise psycopg.DataError("a text with a NUL")
    return text.encode()


def _quoted(key: Any) -> str:
    """As an element of an array."""
    escaped = str(key).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
