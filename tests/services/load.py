# SPDX-License-Identifier: Apache-2.0
"""Callers that ask without pause, and note what they were told."""

import threading
import time
import uuid
from typing import NamedTuple

from roost.errors import RoostError, RpcError
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.model import Flavor, RequestSpec
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

SPEC = RequestSpec(flavor=Flavor(1, 512, root_gb=1))


class Outcome(NamedTuple):
    """What one request came to."""

    uuid: str
    host: str | None
    error: Exception | None
    asked_at: float
    told_at: float


class Load:
    """Some threads, each with one request at a time. `rpc_response_timeout` is short: no test waits a minute."""

    def __init__(self, stack, threads=4, patience=6):
        self.outcomes: list[Outcome] = []
        self._client = stack.client(rpc_response_timeout=patience, long_rpc_timeout=2 * patience)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a caller is still waiting"

    def _ask(self):
        while not self._stop.is_set():
            instance, asked_at = str(uuid.uuid4()), time.monotonic()
            host = problem = None
            try:
                ((chosen,),) = self._client.select_destinations(
                    RequestContext.new(f"req-{instance}"), SPEC, [instance], return_objects=True
                )
                host = chosen.host
            except Exception as error:
                problem = error
            self.outcomes.append(Outcome(instance, host, problem, asked_at, time.monotonic()))

    def wait_for_answers(self, count, seconds=60):
        """Until so many more requests were answered; how long that took."""
        begun, there = time.monotonic(), self.answered()
        while self.answered() < there + count:
            assert time.monotonic() < begun + seconds, f"{self.answered() - there} answers in {seconds} s"
            time.sleep(0.02)
        return time.monotonic() - begun

    def answered(self):
        return sum(each.host is not None for each in self.outcomes)


def check_books(stack, outcomes):
    """Every request was answered and holds what it was told, or failed with one clear line; nothing is held twice."""
    engine = open_engine(DatabaseOptions(connection=stack.database))
    held = Ledger(engine).read_allocations([each.uuid for each in outcomes])
    with engine.connect() as connection:
        names = dict(tuple(row) for row in connection.exec_driver_sql("SELECT uuid, host FROM compute_nodes"))
    engine.dispose()
    for each in outcomes:
        hosts = [names[node] for node in held.get(each.uuid, {})]
        if each.host is not None:
            assert hosts == [each.host], each
        else:
            assert isinstance(each.error, (RpcError, RoostError)), each
            assert len(str(each.error).splitlines()) == 1, each
            assert len(hosts) <= 1, each
    assert stack.audit()["findings"] == []
