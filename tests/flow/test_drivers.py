# SPDX-License-Identifier: Apache-2.0
"""Drivers: the worked examples of nova's, and what is our own: whatever they choose is claimed."""

import sys

import pytest
from tests.flow.cloud import UUID, hosts_of, request

from roost.errors import NoValidHost, PluginFailed, PluginNotFound, RoostError
from roost.records.outages import save_probe
from roost.records.services import save_heartbeats, save_service_heartbeat
from roost.scheduler.all_options import read_options
from roost.scheduler.drivers import CachingScheduler, ChanceScheduler, FilterScheduler, find_driver
from roost.store.store_clock import StoreClock


def ram(mib, **more):
    return {"total_usable_ram_mb": mib, **more}


def by(name):
    return {"scheduler": {"driver": name}, "filter_scheduler": {"weight_classes": ["RAMWeigher"]}}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("filter_scheduler", FilterScheduler),
        ("nova.scheduler.filter_scheduler.FilterScheduler", FilterScheduler),
        ("caching_scheduler", CachingScheduler),
        ("nova.scheduler.caching_scheduler.CachingScheduler", CachingScheduler),
        ("chance_scheduler", ChanceScheduler),
        ("nova.scheduler.chance.ChanceScheduler", ChanceScheduler),
        ("roost.scheduler.drivers.ChanceScheduler", ChanceScheduler),
    ],
)
def test_drivers_are_found_by_every_spelling(name, kind):
    assert find_driver(name) is kind


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("filter_sheduler", "did you mean filter_scheduler"),
        ("nowhere.to.Find", "no module nowhere"),
        ("roost.errors.RoostError", "no driver class"),
    ],
)
def test_a_driver_that_is_none_is_one_line(name, said):
    with pytest.raises(PluginNotFound, match=said):
        find_driver(name)


def test_a_driver_that_was_written_for_nova_is_told_what_to_derive_from(tmp_path):
    (tmp_path / "driver_of_mine.py").write_text("from nova.scheduler import filter_scheduler\n")
    with pytest.raises(PluginNotFound, match=r"^\[scheduler\] driver: driver_of_mine\.Mine: it imports") as caught:
        find_driver("driver_of_mine.Mine", [tmp_path])
    assert "roost.scheduler.drivers.Driver" in caught.value.hint


# --- filter_scheduler ---


def test_alternates_are_of_the_same_cell_and_chosen_for_nobody(make_cloud):
    """The worked example: A, B and C in one cell, D in another, two instances, three attempts."""
    far = {"cell": "cell2"}
    hosts = {"A": ram(8000), "B": ram(7000), "C": ram(6000), "D": ram(5000, **far)}
    manager = make_cloud(hosts, by("filter_scheduler")).manager()
    placement = manager.claims.select(request(), [UUID % 1, UUID % 2], alternates=2)
    found = [[each.host, *(other.host for other in each.alternates)] for each in placement.decision.selections]
    assert found == [["A", "C"], ["B", "C"]]


def test_all_or_nothing(make_cloud):
    cloud = make_cloud({"a": ram(3000)}, by("filter_scheduler"))
    manager = cloud.manager()
    with pytest.raises(NoValidHost) as caught:
        manager.claims.select(request(), [UUID % 1, UUID % 2])
    assert manager.driver.why_nowhere(caught.value) == "There are not enough hosts available."
    assert cloud.holdings([UUID % 1, UUID % 2]) == {}
    assert hosts_of(manager.claims.select(request(), [UUID % 3])) == ["a"]


def test_the_list_of_instances_wins_over_the_number_in_the_request(make_cloud):
    manager = make_cloud({"a": {}}, by("filter_scheduler")).manager()
    assert len(hosts_of(manager.claims.select(request(num_instances=5), [UUID % 1]))) == 1


def test_without_uuids_hosts_are_chosen_and_nothing_is_claimed(make_cloud):
    cloud = make_cloud({"a": ram(5000), "b": ram(4000)}, by("filter_scheduler"))
    manager = cloud.manager()
    assert hosts_of(manager.claims.select(request(num_instances=2), None)) == ["a", "b"]
    assert hosts_of(manager.claims.select(request(), None)) == ["a"]  # what is chosen counts
    with pytest.raises(NoValidHost):
        manager.claims.select(request(), None)
    assert cloud.held() == {}


def test_what_nobody_claimed_counts_for_a_minute(make_cloud):
    cloud = make_cloud({"a": ram(3000)}, by("filter_scheduler"))
    manager = cloud.manager()
    manager.claims.select(request(), None)
    cloud.clock.sleep(59)
    with pytest.raises(NoValidHost):
        manager.claims.select(request(), None)
    cloud.clock.sleep(2)
    assert hosts_of(manager.claims.select(request(), None)) == ["a"]


# --- chance_scheduler ---


def test_chance_picks_any_host_that_is_up(make_cloud):
    down = {"service": {"up": False}}
    manager = make_cloud(
        {"a": {}, "b": {}, "c": down, "d": {"service": {"disabled": True}}}, by("chance_scheduler")
    ).manager()
    picked = {hosts_of(manager.claims.select(request(1, 1), [UUID % at]))[0] for at in range(12)}
    assert picked == {"a", "b"}


def test_chance_heeds_no_forced_host_and_no_zone(make_cloud):
    manager = make_cloud({"a": {}}, by("chance_scheduler")).manager()
    spec = request(force_hosts=("b",), availability_zone="nowhere")
    assert hosts_of(manager.claims.select(spec, [UUID % 1])) == ["a"]


def test_chance_leaves_out_those_to_be_ignored(make_cloud):
    manager = make_cloud({"a": {}, "b": {}}, by("chance_scheduler")).manager()
    for at in range(8):
        assert hosts_of(manager.claims.select(request(1, 1, ignore_hosts=("a",)), [UUID % at])) == ["b"]


@pytest.mark.parametrize(
    ("hosts", "ignored", "reason"),
    [
        ({"a": {"service": {"up": False}}}, (), "Is the appropriate service running?"),
        ({}, (), "Is the appropriate service running?"),
        ({"a": {}}, ("a",), "Could not find another compute"),
    ],
)
def test_chance_says_why_there_is_no_host(make_cloud, hosts, ignored, reason):
    manager = make_cloud(hosts, by("chance_scheduler")).manager()
    with pytest.raises(NoValidHost) as caught:
        manager.claims.select(request(ignore_hosts=ignored), [UUID % 1])
    assert manager.driver.why_nowhere(caught.value) == reason


def test_instances_of_one_request_may_meet_on_a_host(make_cloud):
    manager = make_cloud({"a": {}, "b": {}}, by("chance_scheduler")).manager()
    chosen = hosts_of(manager.claims.select(request(1, 1), [UUID % at for at in range(6)]))
    assert set(chosen) == {"a", "b"}


def test_what_chance_picks_is_claimed_and_so_it_fits(make_cloud):
    cloud = make_cloud({"a": ram(3000), "b": ram(3000)}, by("chance_scheduler"))
    manager = cloud.manager()
    manager.claims.select(request(), [UUID % 1])
    manager.claims.select(request(), [UUID % 2])
    assert sorted(
        next(iter(each.values()))["MEMORY_MB"] for each in cloud.holdings([UUID % 1, UUID % 2]).values()
    ) == [
        2048,
        2048,
    ]
    with pytest.raises(NoValidHost):
        manager.claims.select(request(), [UUID % 3])


# --- caching_scheduler ---


def test_the_cache_is_filled_by_the_first_request(make_cloud):
    manager = make_cloud({"a": {}}, by("caching_scheduler")).manager()
    assert hosts_of(manager.claims.select(request(), [UUID % 1])) == ["a"]


def test_requests_see_one_another_in_the_cache_and_deletes_only_after_the_periodic_task(make_cloud):
    cloud = make_cloud({"a": ram(3000)}, by("caching_scheduler"))
    manager = cloud.manager()
    manager.run_periodic_tasks()
    manager.claims.select(request(), [UUID % 1])
    cloud.ledger.release([UUID % 1])
    cloud.clock.sleep(3600)
    with pytest.raises(NoValidHost):
        manager.claims.select(request(), [UUID % 2])
    manager.run_periodic_tasks()
    assert hosts_of(manager.claims.select(request(), [UUID % 2])) == ["a"]


def test_a_stale_cache_costs_a_round_and_never_a_double_booking(make_cloud):
    cloud = make_cloud({"a": ram(5000), "b": ram(4000)}, by("caching_scheduler"))
    stale, other = cloud.manager(), cloud.manager()
    stale.run_periodic_tasks()
    assert hosts_of(other.claims.select(request(4000), [UUID % 1])) == ["a"]
    assert hosts_of(stale.claims.select(request(4000), [UUID % 2])) == ["b"]
    assert stale.claims.refusals == 1


# --- hosts_up ---


def test_hosts_up_are_enabled_and_heard_of(make_cloud):
    hosts = {
        "static": {},
        "down": {"service": {"up": False}},
        "disabled": {"service": {"disabled": True}},
        "forced": {"service": {"forced_down": True}},
        "seen": {"service": {"seconds_since_seen": 10}},
        "silent": {"service": {"seconds_since_seen": 100}},
    }
    driver = make_cloud(hosts).service().driver
    assert driver.hosts_up("compute") == ["seen", "static"]
    assert driver.hosts_up("conductor") == []


def test_hosts_up_are_read_from_the_database_without_a_refresh_of_the_replica(make_cloud):
    cloud = make_cloud({"a": {}})
    driver = cloud.service().driver
    save_heartbeats(cloud.engine, ["no-node-yet"], cloud.clock.now())
    save_service_heartbeat(cloud.engine, "c1", "nova-conductor", "conductor", cloud.clock.now())
    assert (driver.hosts_up(), driver.hosts_up("conductor")) == (["a", "no-node-yet"], ["c1"])
    for _ in range(10):  # the database takes heartbeats all the while, so silence counts
        cloud.clock.sleep(10)
        save_probe(cloud.engine, StoreClock(cloud.engine, cloud.clock), 60)
    assert (driver.hosts_up(), driver.hosts_up("conductor")) == (["a"], [])


# --- somebody's own ---

OWN = '''
from nova.i18n import _LW  # as drivers written for nova do

from roost.scheduler.drivers import Driver


class LastHost(Driver):
    """Always the last host by name."""

    def choose(self, hosts, spec, count, randomness):
        if spec.availability_zone == "broken":
            raise KeyError("zone")
        return [hosts[-1]] * count if hosts else []
'''


@pytest.fixture
def own_package(tmp_path, monkeypatch):
    """A package with a driver, installed as pip would: a module, and an entry point that names it."""
    (tmp_path / "last_host.py").write_text(OWN)
    info = tmp_path / "last_host-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: last-host\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[roost.scheduler.drivers]\nlast_host = last_host:LastHost\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("last_host", None)


@pytest.mark.parametrize("name", ["last_host", "last_host.LastHost"])
def test_a_driver_of_somebodys_own_chooses_and_its_choice_is_claimed(own_package, make_cloud, name):
    cloud = make_cloud({"a": {}, "b": {}, "c": {"service": {"up": False}}}, by(name))
    manager = cloud.manager()
    assert hosts_of(manager.claims.select(request(), [UUID % 1, UUID % 2])) == ["b", "b"]
    assert len(cloud.holdings([UUID % 1, UUID % 2])) == 2


def test_a_driver_that_names_too_few_hosts_has_none(own_package, make_cloud):
    manager = make_cloud({"c": {"service": {"up": False}}}, by("last_host")).manager()
    with pytest.raises(NoValidHost) as caught:
        manager.claims.select(request(), [UUID % 1])
    assert caught.value.decision.summary == "0 of 1 hosts fit: 1 ComputeFilter"


def test_a_driver_that_raises_fails_that_request_alone(own_package, make_cloud):
    manager = make_cloud({"a": {}}, by("last_host")).manager()
    with pytest.raises(PluginFailed, match="LastHost failed: KeyError"):
        manager.claims.select(request(availability_zone="broken"), [UUID % 1])
    assert hosts_of(manager.claims.select(request(), [UUID % 1])) == ["a"]


def test_a_driver_whose_host_is_full_is_refused_and_nothing_is_booked_twice(own_package, make_cloud):
    cloud = make_cloud({"a": ram(3000)}, by("last_host"))
    manager = cloud.manager()
    manager.claims.select(request(), [UUID % 1])
    with pytest.raises(NoValidHost):
        manager.claims.select(request(), [UUID % 2])
    assert cloud.holdings([UUID % 2]) == {}


FRAGILE = '''
from roost.errors import RoostError
from roost.scheduler.drivers import Driver


class Fragile(Driver):
    """Fails in the method that a test names; counts how often it made a chooser."""

    failing, choosers = "", 0

    def _fail_in(self, name):
        if self.failing == name and self.settings.value("scheduler", "max_attempts") == 7:
            raise RoostError("not with these options")

    def chooser(self):
        self._fail_in("chooser")
        self.choosers += 1
        return super().chooser()

    def preparation(self):
        self._fail_in("preparation")

    @property
    def longest_age_seconds(self):
        self._fail_in("longest_age_seconds")
        return super().longest_age_seconds
'''


@pytest.fixture
def fragile(tmp_path, monkeypatch, make_cloud):
    """A manager whose driver can be made to fail."""
    (tmp_path / "fragile_driver.py").write_text(FRAGILE)
    monkeypatch.syspath_prepend(tmp_path)
    yield make_cloud({"a": {}}, by("fragile_driver.Fragile")).manager()
    sys.modules.pop("fragile_driver", None)


def test_a_driver_makes_one_chooser_at_the_start_and_one_at_a_reload(fragile):
    assert fragile.driver.choosers == 1
    fragile.reload(fragile.settings)
    assert fragile.driver.choosers == 2


@pytest.mark.parametrize("failing", ["chooser", "preparation", "longest_age_seconds"])
def test_a_driver_that_fails_at_a_reload_leaves_everything_as_it_was(fragile, failing):
    before, chooser = fragile.settings, fragile.claims.chooser
    fragile.driver.failing = failing
    with pytest.raises(RoostError, match="not with these options"):
        fragile.reload(read_options(explicit={"scheduler": {"max_attempts": 7}}))
    assert (fragile.settings, fragile.driver.settings) == (before, before)
    assert (fragile.claims.chooser, fragile._most_alternates) == (chooser, 2)
