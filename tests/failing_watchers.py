# SPDX-License-Identifier: Apache-2.0
"""Makes one watcher of requests raise, for tests that send requests past it on every road (D23)."""

import logging
from contextlib import contextmanager
from unittest import mock

import prometheus_client

from roost.api import edge
from roost.best_effort import SWALLOWED
from roost.messages.in_process import InProcessNotifier
from roost.nova import claims
from roost.records import recorder
from roost.records.decisions import DecisionStore
from roost.records.table_changes import TableObserver
from roost.scheduler import cloud
from roost.services.log_handlers import tolerate_failing_handlers

EVERYWHERE = ("counter", "histogram", "gauge", "handler of the log", "filter of the log")
"""Watchers that every service has."""
OF_DECISIONS = ("state of the table", "changes of the table", "encoding of a decision", "writing of decisions")
OF_NOTIFICATIONS = ("payload of a notification", "notifier")


class Injected(RuntimeError):
    """What a watcher raises."""


class Failure:
    """A watcher that raises; `hits`: how often it did."""

    def __init__(self, label):
        self.label, self.hits, self._before = label, 0, SWALLOWED.counts().get(label, 0)

    def __call__(self, *args, **more):
        self.hits += 1
        raise Injected("the watcher is broken")

    @property
    def swallowed(self):
        """How many errors of it were counted since."""
        return SWALLOWED.counts().get(self.label, 0) - self._before


_PATCHED = {
    "state of the table": ("decision_record", TableObserver, "observe"),
    "changes of the table": ("decision_record", TableObserver, "_capture"),
    "encoding of a decision": ("decision_record", recorder, "_encode"),
    "writing of decisions": ("decision_record", DecisionStore, "add"),
    "counter": ("metrics", prometheus_client.Counter, "inc"),
    "histogram": ("metrics", prometheus_client.Histogram, "observe"),
    "gauge": ("metrics", prometheus_client.Gauge, "set"),
    "payload of a notification": ("notifications", cloud, "legacy_payload"),
    "notifier": ("notifications", InProcessNotifier, "info"),
    "health of placement": ("health", None, "_monotonic"),
    "line of the API": ("access_log", edge.LOG, "info"),
    "note of a claim": ("claim_journal", claims.ClaimJournal, "_queue"),
    "file of claims": ("claim_journal", claims.ClaimJournal, "_shorten"),
}


@contextmanager
def failing(name, of=None):
    """Context in which the watcher of this name raises. `of`: the object, where it is not one for all."""
    if name in ("handler of the log", "filter of the log"):
        with _failing_log(name) as failure:
            yield failure
        return
    label, owner, attribute = _PATCHED[name]
    failure = Failure(label)
    with mock.patch.object(of if owner is None else owner, attribute, failure, create=True):
        yield failure


@contextmanager
def _failing_log(name):
    """All loggers have a handler that raises, as plugins may bring one; or those of the services a filter."""
    tolerate_failing_handlers()
    failure, root = Failure("log"), logging.getLogger()
    handler = logging.NullHandler()
    handler.handle = failure
    loggers = [
        each
        for name, each in logging.Logger.manager.loggerDict.items()
        if name.startswith("roost.") and isinstance(each, logging.Logger)
    ]
    before = root.level
    root.setLevel(logging.INFO)
    for each in [root] if name == "handler of the log" else loggers:
        each.addHandler(handler) if each is root else each.addFilter(failure)
    try:
        yield failure
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        for each in loggers:
            each.removeFilter(failure)
