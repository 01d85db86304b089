# SPDX-License-Identifier: Apache-2.0
"""How many statements a request sends to the database, in a process where other services send some too."""

import threading

from sqlalchemy import event

HANDLER_THREADS = "AnyIO worker"


def statements_of(cloud, request):
    """How many statements the handlers of the API send while the call runs."""
    sent = []

    def note(connection, cursor, statement, *rest):
        if threading.current_thread().name.startswith(HANDLER_THREADS) and not statement.startswith("BEGIN"):
            sent.append(statement)

    event.listen(cloud.dev.engine, "before_cursor_execute", note)
    try:
        request()
    finally:
        event.remove(cloud.dev.engine, "before_cursor_execute", note)
    assert sent, "no handler sent any statement"
    return len(sent)
