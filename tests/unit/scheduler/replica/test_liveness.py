# SPDX-License-Identifier: Apache-2.0
"""Who is alive: spec/conductor-and-compute.md 3. The reading itself is tested with databases, in tests/store."""

import datetime

import pytest

from roost.hosts.updates import set_service
from roost.model import Service
from roost.records.outages import HeartbeatRule, microseconds
from roost.scheduler.own_source import Heartbeat, moment
from roost.scheduler.replica import Liveness
from roost.testing import make_hosts

NOW = datetime.datetime(2026, 11, 15, 12, 0, 0, 123457, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
MICROSECOND = datetime.timedelta(microseconds=1)


def heard(host, seen, is_static=False):
    return Heartbeat(host, None if seen is None else microseconds(seen), is_static)


def liveness_of(heartbeats, up=True, **columns):
    table = make_hosts(**columns or {"count": 1}, service={"up": up})
    liveness = Liveness()
    liveness.note(heartbeats)
    liveness.follow(table)
    return liveness, table


def changed(liveness, now=NOW):
    risen, silent = liveness.find_changed(HeartbeatRule(now, 60))
    return risen.tolist(), silent.tolist()


def test_microseconds_are_exact():
    assert moment(microseconds(NOW)) == NOW
    assert microseconds(NOW + MICROSECOND) - microseconds(NOW) == 1


@pytest.mark.parametrize(
    ("seen", "is_up"),
    [
        (NOW - MINUTE, True),
        (NOW - MINUTE - MICROSECOND, False),
        (NOW + MINUTE, True),
        (NOW + MINUTE + MICROSECOND, False),
        (None, False),
    ],
)
def test_a_minute_in_either_direction(seen, is_up):
    liveness, _ = liveness_of([heard("host1", seen)])
    assert changed(liveness) == ([], [] if is_up else [0])
    liveness, _ = liveness_of([heard("host1", seen)], up=False)
    assert changed(liveness) == ([0] if is_up else [], [])


def test_a_host_without_an_agent_is_up():
    liveness, _ = liveness_of([heard("host1", None, is_static=True)])
    assert changed(liveness) == ([], [])


def test_a_host_that_nobody_heard_of_is_down():
    liveness, _ = liveness_of([])
    assert changed(liveness) == ([], [0])


def test_all_nodes_of_a_host_rise_together():
    names = {"host": ["a", "b", "b"], "node": ["n1", "n1", "n2"]}
    liveness, _ = liveness_of([heard("a", None)], up=False, **names)
    liveness.note([heard("b", NOW), heard("unknown", NOW)])
    assert changed(liveness) == ([1, 2], [])


def test_what_the_table_learned_is_not_told_again():
    liveness, table = liveness_of([heard("host1", None)])
    assert changed(liveness) == ([], [0])
    set_service(table, 0, Service(up=False))
    liveness.note_row(0)
    assert changed(liveness) == ([], [])


def test_another_table_keeps_what_was_heard():
    liveness, _ = liveness_of([heard("host1", NOW), heard("host2", None)])
    liveness.follow(make_hosts(2, service={"up": True}))
    assert changed(liveness) == ([], [1])
