# SPDX-License-Identifier: Apache-2.0
"""D23: what only watches requests goes through one guard, whoever adds to it.

Read from the source: classes that by their names are watchers, and their public methods.
"""

import ast
from pathlib import Path

import pytest

import roost

SOURCE = Path(roost.__file__).parent
NAMES = ("Metrics", "Recorder", "Journal", "Notifications", "Notifier", "Health", "Outcomes")
"""Ends of the names of watchers."""
BACKGROUND = "no request waits for it or hears of its errors"
START = "a process begins, or is asked to"
SENT = "called by RequestNotifications and Outcomes, which are guarded"
UNGUARDED = {
    "DecisionRecorder.begin": "guarded where options are reloaded, and else part of the start",
    "DecisionRecorder.flush": BACKGROUND,
    "Metrics.for_worker": START,
    "Metrics.render": BACKGROUND,
    "WorkerMetrics.render": BACKGROUND,
    "ClaimJournal.open": START,
    "ClaimJournal.take_over": BACKGROUND,
    "ClaimJournal.abandoned": BACKGROUND,
    "ClaimJournal.close": START,
    "Journal.close": START,
    "RequestNotifications.over": START,
    "RequestNotifications.dropped": BACKGROUND,
    "QueuedNotifier.is_enabled": START,
    "QueuedNotifier.dropped": BACKGROUND,
    "QueuedNotifier.info": SENT,
    "QueuedNotifier.error": SENT,
    "InProcessNotifier.is_enabled": START,
    "InProcessNotifier.info": SENT,
    "InProcessNotifier.error": SENT,
    "Outcomes.failed": "it saves the state of a server; its notification is guarded",
}
"""Methods that may raise, and why."""


def watchers():
    """Class and name of each public method of a watcher -> its definition."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith(NAMES) and not is_protocol(node):
                for each in node.body:
                    if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
                        yield f"{node.name}.{each.name}", each


def is_protocol(node):
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def is_guarded(function):
    return any(ast.unparse(each).startswith("best_effort(") for each in function.decorator_list)


METHODS = dict(watchers())


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_a_watcher_raises_nothing_into_a_request(name):
    assert is_guarded(METHODS[name]) != (name in UNGUARDED)


def test_exceptions_exist():
    assert UNGUARDED.keys() <= METHODS.keys()
