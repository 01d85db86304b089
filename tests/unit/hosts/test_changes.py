# SPDX-License-Identifier: Apache-2.0
from roost.hosts.changes import Change, ChangeLog

RAM = frozenset({"free_ram_mb"})


def log_of(*rows, keep=8192):
    log = ChangeLog(keep)
    for row in rows:
        log.note(row, RAM)
    return log


def test_a_new_log_is_at_version_0_with_nothing_to_tell():
    log = ChangeLog()
    assert (log.version, log.since(0)) == (0, [])


def test_every_note_raises_the_version_by_one():
    assert log_of(5, 5, 7).version == 3


def test_changes_since_a_version_come_oldest_first():
    assert log_of(5, 6, 7).since(1) == [Change(6, RAM), Change(7, RAM)]


def test_a_change_names_row_and_columns():
    log = ChangeLog()
    log.note(3, frozenset({"vcpus_used", "instances"}))
    assert log.since(0) == [Change(3, frozenset({"vcpus_used", "instances"}))]


def test_nothing_changed_since_the_latest_version():
    assert log_of(5, 6).since(2) == []


def test_the_latest_are_kept_and_told():
    assert [change.row for change in log_of(1, 2, 3, 4, 5, keep=3).since(2)] == [3, 4, 5]


def test_where_some_are_forgotten_the_answer_is_none():
    assert log_of(1, 2, 3, 4, 5, keep=3).since(1) is None


def test_forgotten_changes_still_count_in_the_version():
    assert log_of(1, 2, 3, 4, 5, keep=3).version == 5


def test_asking_changes_nothing():
    log = log_of(1, 2)
    assert log.since(0) == log.since(0)
