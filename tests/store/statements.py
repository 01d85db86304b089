# SPDX-License-Identifier: Apache-2.0
"""How many statements something sends, and several writers that begin at the same moment."""

import threading
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import event


def counted_statements(engine, use):
    """How many statements the call sends to the database."""
    sent = []

    def note(connection, cursor, statement, *rest):
        if not statement.startswith("BEGIN"):  # which only SQLite needs
            sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        use()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return len(sent)


def run_together(*calls):
    """What each call returned or raised, in their order; each has its own thread."""
    barrier = threading.Barrier(len(calls))

    def run(call):
        barrier.wait()
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))
