# SPDX-License-Identifier: Apache-2.0
"""Heartbeats are stamped by the database and compared with its clock: a wrong clock of a machine changes nothing."""

import random
from datetime import timedelta

import pytest
from sqlalchemy import update
from tests.store.fleets import bring, one, one_host, wipe

from roost.clock import SystemClock
from roost.compute.drivers.fake import FakeDriver, FakeHypervisors
from roost.compute.options import ComputeOptions, FakeDriverOptions
from roost.compute.reporter import HostReporter
from roost.compute.tracker import ResourceTracker
from roost.ledger.ledger import Ledger
from roost.records.fleet_export import export_fleet
from roost.records.servers import ServerStore
from roost.records.services import read_agents_on, read_hosts_up, save_heartbeats, save_service_heartbeat
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.store.schema.fleet import services
from roost.store.store_clock import FollowedClock, StoreClock

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)


class WrongClock(SystemClock):
    """The clock of a machine that is some hours off; its monotonic clock goes on when a test says so."""

    def __init__(self, hours=0):
        self.off, self.ticks = hours * HOUR, 0.0

    def now(self):
        return super().now() + self.off

    def monotonic(self):
        return super().monotonic() + self.ticks


@pytest.fixture
def store(current):
    yield current
    wipe(current)


@pytest.fixture
def wrong(kind):
    """The clock of one machine that is an hour ahead. With SQLite there is one machine only."""
    return WrongClock(0 if kind == "sqlite" else 1)


def report_from(store, clock, host="a"):
    tracker = ResourceTracker(host, ServerStore(store, clock), Ledger(store), ComputeOptions())
    driver = FakeDriver(host, FakeHypervisors(), FakeDriverOptions(), clock, random.Random(1))
    return HostReporter(host, driver, tracker, store, clock)


def replica_with(store, clock):
    options, times = SchedulerOptions(), StoreClock(store, clock)
    return make_host_manager(store, options, clock.now, clock.monotonic, None, times)


def hosts_up(replica):
    replica.refresh()
    table = replica.table
    return [host for row, (host, _) in enumerate(table.names) if table.encoded["service"].at(row).up]


def age_heartbeat(store, host, seconds):
    last = one(store, services, host=host).last_seen_up
    with store.begin() as connection:
        aged = update(services).where(services.c.host == host).values(last_seen_up=last - seconds * SECOND)
        connection.execute(aged)


@pytest.mark.parametrize("hours", [-1, 1])
def test_an_agent_whose_clock_is_an_hour_wrong_is_up(store, kind, hours):
    report_from(store, WrongClock(0 if kind == "sqlite" else hours)).report()
    assert hosts_up(replica_with(store, WrongClock())) == ["a"]


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_scheduler_whose_clock_is_an_hour_wrong_has_agents_up(store, kind, hours):
    report_from(store, WrongClock()).report()
    clock = WrongClock(0 if kind == "sqlite" else hours)
    replica = replica_with(store, clock)
    assert hosts_up(replica) == ["a"]
    clock.ticks += 2.0
    save_heartbeats(store, ["a"], StoreClock(store, WrongClock()))
    assert hosts_up(replica) == ["a"]
    assert read_hosts_up(store, "compute", StoreClock(store, clock), 60) == ["a"]


def test_an_agent_that_stops_is_out_after_the_down_time_and_back_with_its_next_report(store, wrong):
    clock = WrongClock()
    reporter = report_from(store, wrong)
    reporter.report()
    replica = replica_with(store, clock)
    assert hosts_up(replica) == ["a"]
    age_heartbeat(store, "a", 59)
    clock.ticks += 31.0
    assert hosts_up(replica) == ["a"]
    age_heartbeat(store, "a", 2)
    clock.ticks += 31.0
    assert hosts_up(replica) == []
    reporter.report()
    clock.ticks += 2.0
    assert hosts_up(replica) == ["a"]


def test_whether_agents_are_up_is_read_for_some_hosts(store):
    times = StoreClock(store, WrongClock())
    report_from(store, WrongClock()).report()
    assert {host: each.up for host, each in read_agents_on(store, ["a", "b"], times, 60).items()} == {"a": True}
    age_heartbeat(store, "a", 61)
    assert read_agents_on(store, ["a"], times, 60)["a"].up is False
    assert read_agents_on(store, [], times, 60) == {}


def test_without_any_heartbeat_time_passes_by_the_monotonic_clock(store, kind):
    report_from(store, WrongClock()).report()
    clock = WrongClock()
    followed = FollowedClock(StoreClock(store, clock), clock.now, clock.monotonic)
    with store.connect() as connection:
        followed.note(StoreClock(store, clock).read(connection))
    before = followed.now()
    clock.ticks, clock.off = 100.0, 24 * HOUR
    passed = (followed.now() - before).total_seconds()
    assert passed == pytest.approx(24 * 3600 if kind == "sqlite" else 100.0, abs=5.0)


def test_heartbeats_of_other_services_are_stamped_by_the_database_too(store, wrong):
    for _ in range(2):
        save_service_heartbeat(store, "s1", "nova-scheduler", "scheduler", StoreClock(store, wrong))
    row = one(store, services, host="s1")
    assert abs(row.last_seen_up - SystemClock().now()) < 60 * SECOND
    assert (row.created_at <= row.last_seen_up, row.report_count) == (True, 2)


def test_a_static_host_becomes_the_agents_by_a_stamped_heartbeat(store, wrong):
    bring(store, one_host())
    save_heartbeats(store, ["a"], StoreClock(store, wrong))
    row = one(store, services, host="a")
    assert not row.is_static
    assert abs(row.last_seen_up - SystemClock().now()) < 60 * SECOND


def test_an_export_tells_ages_by_the_clock_of_the_database(store, wrong):
    report_from(store, wrong).report()
    age_heartbeat(store, "a", 30)
    (host,) = export_fleet(store, StoreClock(store, wrong))["hosts"]
    assert host["service"]["seconds_since_seen"] == pytest.approx(30.0, abs=5.0)
