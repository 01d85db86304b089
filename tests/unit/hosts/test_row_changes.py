# SPDX-License-Identifier: Apache-2.0
import pickle

import pytest

from roost.hosts.table import ChangeLog

RAM = frozenset({"free_ram_mb"})


def log_of(*rows, keep=8192):
    log = ChangeLog(keep)
    for row in rows:
        log.note(row, RAM)
    return log


def test_a_new_log_is_at_version_0_without_changes():
    log = ChangeLog()
    assert (log.version, log.rows_since(0)) == (0, {})


def test_every_note_raises_the_version_by_one():
    assert log_of(5, 5, 7).version == 3


def test_changes_since_a_version_come_oldest_first():
    assert list(log_of(5, 7, 6).rows_since(1).items()) == [(7, RAM), (6, RAM)]


def test_a_change_names_row_and_columns():
    log = ChangeLog()
    log.note(3, frozenset({"vcpus_used", "instances"}))
    assert log.rows_since(0) == {3: frozenset({"vcpus_used", "instances"})}


def test_nothing_changed_since_the_latest_version():
    assert log_of(5, 6).rows_since(2) == {}


def test_the_latest_changes_are_retained():
    assert list(log_of(1, 2, 3, 4, 5, keep=3).rows_since(2)) == [3, 4, 5]


def test_the_answer_is_none_if_some_changes_were_dropped():
    assert log_of(1, 2, 3, 4, 5, keep=3).rows_since(1) is None


def test_dropped_changes_still_count_in_the_version():
    assert log_of(1, 2, 3, 4, 5, keep=3).version == 5


def test_reading_changes_nothing():
    log = log_of(1, 2)
    assert log.rows_since(0) == log.rows_since(0) == {1: RAM, 2: RAM}


def test_a_new_log_has_no_change_of_aggregates():
    assert ChangeLog().aggregates_version == 0


def test_the_latest_change_of_aggregates_is_at_its_version():
    log = ChangeLog()
    for columns in ({"aggregates"}, {"free_ram_mb"}, {"aggregates", "num_io_ops"}, {"instances"}):
        log.note(1, frozenset(columns))
    assert (log.aggregates_version, log.version) == (3, 4)


def test_other_changes_are_no_changes_of_aggregates():
    assert log_of(1, 2, 3).aggregates_version == 0


def test_a_change_of_aggregates_that_was_dropped_still_has_its_version():
    log = ChangeLog(keep=2)
    log.note(0, frozenset({"aggregates"}))
    for row in range(20):
        log.note(row, RAM)
    assert (log.aggregates_version, log.rows_since(0)) == (1, None)


@pytest.mark.parametrize("count", range(1, 30))
def test_exactly_the_latest_are_returned_however_many_there_were(count):
    log = log_of(*range(count), keep=5)
    assert list(log.rows_since(max(0, count - 5))) == list(range(count))[-5:]


@pytest.mark.parametrize("count", range(6, 30))
def test_one_more_than_are_retained_is_none(count):
    assert log_of(*range(count), keep=5).rows_since(count - 6) is None


def test_of_many_changes_a_bounded_number_is_retained():
    assert len(pickle.dumps(log_of(*range(10_000), keep=8))) < 1000


def test_equal_sets_of_columns_are_kept_once():
    """D44: each report of a host brings a set of its own, of names that were made for it."""
    log = ChangeLog()
    for row in range(1000):
        log.note(row, frozenset({f"allocated:{'VCPU'}", "free_ram_mb"}))
    kept = log.rows_since(0).values()
    assert (len(kept), len({id(each) for each in kept})) == (1000, 1)


def test_of_many_sets_of_columns_a_bounded_number_is_retained():
    log = ChangeLog(keep=8)
    for number in range(10_000):
        log.note(0, frozenset({f"limit:CUSTOM_{number}"}))
    assert len(pickle.dumps(log)) < 100_000


def test_changes_by_row_are_merged_and_stay_in_the_order_of_their_first_change():
    log = ChangeLog()
    up, busy = frozenset({"is_up"}), frozenset({"num_io_ops"})
    for row, columns in [(9, up), (3, up), (1, busy), (3, busy)]:
        log.note(row, columns)
    assert list(log.rows_since(1).items()) == [(3, up | busy), (1, busy)]
    assert log.rows_since(3) == {3: busy}
    assert log.rows_since(4) == {}
