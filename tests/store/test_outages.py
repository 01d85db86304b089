# SPDX-License-Identifier: Apache-2.0
"""D38: after an outage of the database hosts are given time for a heartbeat, if they were up when it began."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, update
from tests.store.fleets import wipe

from roost.records.outages import save_probe
from roost.records.service_catalogue import LivenessAndZones, list_services
from roost.records.services import is_agent_up, read_agents_on, read_hosts_up, save_heartbeats
from roost.store.schema.fleet import heartbeat_probes, services

START = datetime(2026, 11, 19, 12, tzinfo=UTC)
DOWN_SECONDS = 60


class Fleet:
    """Agents that send heartbeats, and a process that probes the database; a test turns the clock."""

    def __init__(self, engine):
        self.engine, self.now = engine, START
        save_probe(engine, self.now, DOWN_SECONDS)

    def run(self, seconds, *hosts):
        """So many seconds pass, with heartbeats of these hosts every ten, and probes every three."""
        for second in range(1, seconds + 1):
            self.now += timedelta(seconds=1)
            if second % 10 == 0:
                save_heartbeats(self.engine, hosts, self.now)
            if second % 3 == 0:
                self.probe()

    def probe(self):
        return save_probe(self.engine, self.now, DOWN_SECONDS)

    def pass_time(self, seconds):
        """Nothing can be written."""
        self.now += timedelta(seconds=seconds)

    def up(self):
        found = [host for host in ("a", "b") if is_agent_up(self.engine, host, self.now, DOWN_SECONDS)]
        options = LivenessAndZones(DOWN_SECONDS)
        assert [each.host for each in list_services(self.engine, self.now, options) if each.is_up] == found
        assert read_hosts_up(self.engine, "compute", self.now, DOWN_SECONDS) == found
        agents = read_agents_on(self.engine, ["a", "b"], self.now, DOWN_SECONDS)
        assert [host for host, each in sorted(agents.items()) if each.up] == found
        return found


@pytest.fixture
def fleet(current):
    made = Fleet(current)
    made.run(30, "a", "b")
    yield made
    wipe(current)
    with current.begin() as connection:
        connection.execute(delete(heartbeat_probes))


@pytest.mark.parametrize("seconds", [20, 80, 86400])
def test_hosts_are_up_when_the_database_is_back_and_before_anything_was_written(fleet, seconds):
    fleet.pass_time(seconds)
    assert fleet.up() == ["a", "b"]
    fleet.probe()
    assert fleet.up() == ["a", "b"]


def test_a_host_that_stays_silent_is_down_after_the_down_time_from_the_end_of_the_outage(fleet):
    fleet.pass_time(80)
    fleet.probe()
    fleet.run(60, "b")
    assert fleet.up() == ["a", "b"]
    fleet.run(1, "b")
    assert fleet.up() == ["b"]


def test_a_host_that_was_down_before_an_outage_stays_down(fleet):
    fleet.run(70, "b")
    assert fleet.up() == ["b"]
    fleet.pass_time(80)
    assert fleet.up() == ["b"]
    fleet.probe()
    assert fleet.up() == ["b"]


def test_an_outage_just_after_another_does_not_count_the_first_as_silence(fleet):
    fleet.pass_time(50)
    fleet.probe()
    fleet.run(5)
    fleet.pass_time(50)
    fleet.probe()
    assert fleet.up() == ["a", "b"]
    fleet.run(61, "a")
    assert fleet.up() == ["a"]


def test_a_silent_host_without_any_outage_is_down_as_before(fleet):
    fleet.run(60, "a")
    assert fleet.up() == ["a", "b"]
    fleet.run(1, "a")
    assert fleet.up() == ["a"]


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_jump_of_the_clock_takes_no_host_down(fleet, hours):
    fleet.pass_time(hours * 3600)
    assert fleet.up() == ["a", "b"]
    fleet.probe()
    assert fleet.up() == ["a", "b"]
    fleet.run(60, "a", "b")
    assert fleet.up() == ["a", "b"]
    fleet.run(61, "b")
    assert fleet.up() == ["b"]


def test_an_outage_is_found_once_and_by_one_process(fleet):
    fleet.pass_time(80)
    assert fleet.probe().resumed_at == fleet.now
    assert fleet.probe() is None
    fleet.run(30, "a")
    assert fleet.probe() is None


def test_a_pause_that_is_shorter_than_a_quarter_of_the_down_time_is_no_outage(fleet):
    fleet.pass_time(14)
    assert fleet.probe() is None


def test_without_a_probe_the_clock_alone_decides(current):
    save_heartbeats(current, ["a"], START)
    try:
        assert is_agent_up(current, "a", START + timedelta(seconds=60), DOWN_SECONDS)
        assert not is_agent_up(current, "a", START + timedelta(seconds=61), DOWN_SECONDS)
    finally:
        wipe(current)


def test_a_host_that_is_forced_down_is_down_in_an_outage_too(fleet):
    with fleet.engine.begin() as connection:
        connection.execute(update(services).where(services.c.host == "a").values(forced_down=True))
    fleet.pass_time(80)
    assert read_hosts_up(fleet.engine, "compute", fleet.now, DOWN_SECONDS) == ["b"]
