# SPDX-License-Identifier: Apache-2.0
"""Sends batches of statements to PostgreSQL in libpq's pipeline mode.

psycopg's own `Connection.pipeline` needs three times the CPU time, because each statement has a cursor and adapters.
Here statements are known and values are texts, so the libpq wrapper `psycopg.pq` is enough. Transactions remain
psycopg's and SQLAlchemy's: they ask libpq whether one is open.
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
from roost.store.engine import has_unread_input
from roost.store.statements import Statement, StatementResult

_INFO_KEY = "roost_pipeline"
"""Key in the `info` of a connection, which lives as long as the connection of the driver."""
_SUCCEEDED = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
_DIALECT = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
_statement_numbers = count(1)


class _CompiledStatement(NamedTuple):
    """A statement as the server takes it: SQL with numbered parameters, and a name to prepare it under."""

    name: bytes
    text: bytes
    parameters: tuple[str, ...] = ()
    """Names of the parameters, in the order of their numbers."""
    constants: Mapping[str, Any] = MappingProxyType({})
    """Parameters whose values are part of the statement."""


_BoundStatement = tuple[_CompiledStatement, list[bytes | None]]
"""A statement and the values of its parameters as PostgreSQL's text format; None is NULL."""
_BEGIN: _BoundStatement = (_CompiledStatement(b"roost_begin", b"BEGIN ISOLATION LEVEL READ COMMITTED"), [])


def send_pipelined(connection: Connection, statements: Iterable[Statement]) -> list[StatementResult]:
    """Execute the statements in one round trip: their results, in order. The first one that fails raises.

    Begins a transaction if none is open. `statement_batch.send_batch` calls it on PostgreSQL.
    """
    pipeline = _pipeline_of(connection)
    with _driver_errors_mapped(connection, pipeline):
        return pipeline.send([_bind(_compile(statement), values) for statement, values in statements])


class PersistentPipeline:
    """A connection that stays checked out, for statements that are transactions of their own. Not thread-safe.

    Checking a connection out of the pool and in again costs as much time as a short statement.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._open: tuple[Connection, _ConnectionPipeline] | None = None
        pool: Any = engine.pool
        self._is_only_connection = pool.size() == 1 and pool._max_overflow == 0
        """The pool has one connection, which is checked in after each statement: other threads need it."""
        event.listen(engine, "engine_disposed", lambda _: self.close())

    def send(self, statement: Statement) -> StatementResult:
        """Execute the statement and commit: its result."""
        if self._open is None or self._open[1].has_unread_input():
            self.close()
            connection = self._engine.connect()
            self._open = connection, _pipeline_of(connection)
        connection, pipeline = self._open
        try:
            with _driver_errors_mapped(connection, pipeline):
                return pipeline.send_transaction(_bind(_compile(statement.statement), statement.values))
        except BaseException:
            if connection.invalidated:
                self.close()
            raise
        finally:
            if self._is_only_connection and self._open:
                connection.close()
                self._open = None

    def close(self) -> None:
        """Close the connection; the next statement opens another one."""
        current, self._open = self._open, None
        if current is not None:
            current[0].invalidate()
            current[0].close()


def _pipeline_of(connection: Connection) -> _ConnectionPipeline:
    """The pipeline of a connection, created on first access and cached with the connection."""
    pipeline: _ConnectionPipeline | None = connection.info.get(_INFO_KEY)
    if pipeline is None:
        pipeline = connection.info[_INFO_KEY] = _ConnectionPipeline(connection.connection.driver_connection)
    return pipeline


class _driver_errors_mapped:  # noqa: N801 - used as a context manager
    """In this context errors of psycopg become those of SQLAlchemy, and a broken connection is invalidated.

    A class, because a generator with `contextmanager` takes as long as the rest of a round trip's Python code.
    """

    def __init__(self, connection: Connection, pipeline: _ConnectionPipeline) -> None:
        self._connection, self._pipeline = connection, pipeline

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(error, psycopg.Error):
            raise _sqlalchemy_error(self._connection, error, self._pipeline.is_usable()) from error
        self._connection.invalidate()  # unread results would be taken for those of the next statement


def _sqlalchemy_error(connection: Connection, error: psycopg.Error, is_usable: bool) -> BaseException:
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
def _compile(statement: Executable) -> _CompiledStatement:
    compiled = statement.compile(dialect=_DIALECT)  # type: ignore[attr-defined]
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    name = b"roost_%d" % next(_statement_numbers)
    return _CompiledStatement(name, compiled.string.encode(), tuple(compiled.positiontup or ()), constants)


class _ConnectionPipeline:
    """The pipeline of one connection, and the names of the statements that are prepared on it."""

    def __init__(self, driver: Any) -> None:
        self._driver, self._libpq = driver, driver.pgconn
        self._loader: Any = Transformer(driver)
        self._prepared: set[bytes] = set()
        self._name_generation = 0
        self._may_prepare = driver.prepare_threshold is not None  # a URL may forbid it: some poolers cannot
        self._poll = select.poll()
        self._poll.register(self._libpq.socket, select.POLLIN)

    def has_unread_input(self) -> bool:
        """Whether the connection is closed, or the server sent something unrequested, such as the end."""
        return has_unread_input(self._driver)

    def is_usable(self) -> bool:
        """Whether the connection is open and has no statement in flight."""
        return self._libpq.status == ConnStatus.OK and not self._libpq.pipeline_status

    def send(self, statements: list[_BoundStatement]) -> list[StatementResult]:
        """Execute the statements in one round trip: one result each. Begins a transaction if none is open.

        After a rollback psycopg may deallocate all prepared statements. `BEGIN` is prepared too: a batch that begins
        a transaction then fails before it changes anything, and is sent again here. In a transaction that is already
        open it is a DatabaseConflict, and the caller has to retry the transaction.
        """
        if self._libpq.transaction_status != TransactionStatus.IDLE:
            try:
                return self._round_trip(statements)
            except psycopg.errors.InvalidSqlStatementName as error:
                raise DatabaseConflict("the database has forgotten its statements", "try again") from error
        try:
            return self._round_trip([_BEGIN, *statements])[1:]
        except psycopg.errors.InvalidSqlStatementName:
            self._prepare_again()
            return self._round_trip([_BEGIN, *statements])[1:]

    def send_transaction(self, statement: _BoundStatement) -> StatementResult:
        """Execute a statement as a transaction of its own, committed with the round trip: its result."""
        name = self._name_of(statement[0])
        if name not in self._prepared:
            return self._round_trip([statement])[0]
        try:
            result = self._libpq.exec_prepared(name, statement[1])
            if self._libpq.status != ConnStatus.OK:
                raise psycopg.OperationalError(self._libpq.get_error_message())
            _raise_first_failure([result])
            return self._result_of(result)
        except psycopg.errors.InvalidSqlStatementName:
            self._prepare_again()
            return self._round_trip([statement])[0]

    def _name_of(self, compiled: _CompiledStatement) -> bytes:
        return b"%s_%d" % (compiled.name, self._name_generation)

    def _prepare_again(self) -> None:
        """Prepare all statements again, under new names: the server may still know some of the old ones."""
        self._prepared.clear()
        self._name_generation += 1

    def _round_trip(self, statements: list[_BoundStatement]) -> list[StatementResult]:
        """Send all statements, then read all results."""
        self._libpq.enter_pipeline_mode()
        sent = list(self._send(statements))
        self._libpq.pipeline_sync()
        self._flush()
        results = self._read()
        self._libpq.exit_pipeline_mode()
        for name, result in zip(sent, results, strict=True):
            if name and result.status in _SUCCEEDED:
                self._prepared.add(name)
        _raise_first_failure(results)
        return [self._result_of(result) for name, result in zip(sent, results, strict=True) if name is None]

    def _send(self, statements: list[_BoundStatement]) -> Iterator[bytes | None]:
        """Queue the statements: for each result to come None, or the name if it is the result of a preparation."""
        new: set[bytes] = set()
        for compiled, values in statements:
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
        """Write the queue to the socket, and read meanwhile: a server that cannot send its results stops reading."""
        while self._libpq.flush():
            self._poll.modify(self._libpq.socket, select.POLLIN | select.POLLOUT)
            if any(events & ~select.POLLOUT for _, events in self._poll.poll()):
                self._libpq.consume_input()
            self._poll.modify(self._libpq.socket, select.POLLIN)

    def _read(self) -> list[Any]:
        """All results up to the end of the batch. If the connection is lost, the server's last error is raised."""
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

    def _result_of(self, result: Any) -> StatementResult:
        if result.status == ExecStatus.COMMAND_OK:
            return StatementResult((), result.command_tuples or 0)
        self._loader.set_pgresult(result)
        return StatementResult(self._loader.load_rows(0, result.ntuples, tuple), result.ntuples)


def _raise_first_failure(results: list[Any]) -> None:
    for result in results:
        if result.status not in _SUCCEEDED:
            raise psycopg.errors.error_from_result(result)


def _bind(compiled: _CompiledStatement, values: Any) -> _BoundStatement:
    given = {**compiled.constants, **values} if compiled.constants else values
    return compiled, [_text_format(given[name]) for name in compiled.parameters]


def _text_format(value: Any) -> bytes | None:
    """A value in PostgreSQL's text format; None for NULL. DataError for a NUL, at which libpq would cut the text."""
    if value is None:
        return None
    text = "{" + ",".join(map(_array_element, value)) + "}" if isinstance(value, list) else str(value)
    if "\0" in text:
        raise psycopg.DataError("a text with a NUL")
    return text.encode()


def _array_element(key: Any) -> str:
    """A key, quoted as an element of an array."""
    escaped = str(key).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
