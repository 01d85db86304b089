# SPDX-License-Identifier: Apache-2.0
"""A snapshot comes back as it was taken, and what is none is refused with a reason."""

import dataclasses

import pytest
from tests.unit.sources.snapshots import FLEET, SERVER, UUID, packed, snapshot

from roost import Flavor, RequestSpec, Scheduler, __version__
from roost.errors import BadInput, OptionError, SnapshotError
from roost.sources.snapshot import Snapshot


def read(content):
    return Snapshot.of_bytes(content, "x.snap")


def test_it_comes_back_as_it_was_taken():
    taken = snapshot()
    found = read(taken.to_bytes())
    assert dataclasses.replace(found, source="snapshot") == taken
    assert found.version == __version__
    assert found.to_bytes() == taken.to_bytes()


def test_its_fleet_has_records_options_and_groups():
    fleet = read(snapshot().to_bytes()).fleet
    assert [pairs for _, pairs in fleet.runs] == [[("a", "a")], [("b", "b")]]
    assert fleet.server_groups["apart"].members == (UUID,)
    assert fleet.options["scheduler"]["max_attempts"] == 3
    assert fleet.options_win


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"roost_snapshot": None}, "no snapshot: it does not say which schema it has"),
        ({"roost_snapshot": 0}, "no snapshot"),
        ({"roost_snapshot": True}, "no snapshot"),
        ({"roost_snapshot": 2}, f"schema 2, and Roost {__version__} reads up to 1"),
        ({"servrs": []}, "unknown field 'servrs' .did you mean servers"),
        ({"taken_at": None}, "taken_at: .* is no time"),
        ({"taken_at": "yesterday"}, "taken_at: 'yesterday' is no time"),
        ({"taken_at": "2026-11-15T12:00:00"}, "no time with a time zone"),
        ({"version": 1}, "version: 1 is no version"),
        ({"version": "x" * 200}, "is no version"),
        ({"fleet": None}, "fleet: .* is no fleet"),
        ({"fleet": []}, "fleet: .* is no fleet"),
        ({"fleet": {"options": {}}}, "fleet.options: is there twice"),
        ({"options": []}, "options: "),
        ({"options": {"DEFAULT": 1}}, "options"),
        ({"servers": None}, "servers: .* is no list"),
        ({"servers": [1]}, r"servers\[0\]: 1 is no server"),
        ({"servers": [SERVER, {"name": "x"}]}, r"servers\[1\]: .* is no server"),
        ({"servers": [SERVER | {"host": 1}]}, r"servers\[0\].host: 1 is no text"),
    ],
)
def test_what_is_wrong_with_it_is_said_in_one_line(changes, words):
    with pytest.raises(SnapshotError, match=words) as caught:
        read(packed(**changes))
    assert str(caught.value).startswith("x.snap: ")
    assert "\n" not in str(caught.value)


def test_what_is_wrong_with_its_fleet_is_said_when_it_is_used():
    found = read(packed(fleet={"hosts": [{"host": "a", "vcpus_total": "many"}]}))
    with pytest.raises(SnapshotError, match=r"x.snap: fleet: hosts\[0\].vcpus_total: 'many' is not a whole number"):
        _ = found.fleet


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"filter_scheduler": {"available_filters": ["os.system"]}}, "may not name code"),
        ({"filter_scheduler": {"enabled_filters": ["my.module.Filter"]}}, "may not name code"),
        ({"filter_scheduler": {"weight_classes": ["my.module.Weigher"]}}, "may not name code"),
        ({"database": {"connection": "postgresql://elsewhere"}}, "may not name code, addresses or files"),
        ({"DEFAULT": {"transport_url": "rabbit://elsewhere"}}, "may not name code, addresses or files"),
        ({"DEFAULT": {"log_file": "/etc/passwd"}}, "may not name code, addresses or files"),
        ({"trusted_computing": {"attestation_server": "elsewhere"}}, "may not name code, addresses or files"),
        ({"DEFAULT": {"default_availability_zone": "$host"}}, "cannot refer to another option"),
        ({"filter_scheduler": {"ram_weight_multiplier": "much"}}, "ram_weight_multiplier"),
        ({"filter_scheduler": {"ram_weight_multiplierr": 1}}, "ram_weight_multiplier"),
    ],
)
def test_its_options_obey_the_rule_of_fleet_files(options, words):
    with pytest.raises(OptionError, match=words) as caught:
        Scheduler(read(packed(options=options)).fleet)
    assert str(caught.value).startswith("x.snap: ")


def host_of(fleet, **how):
    return Scheduler(fleet, **how).place(RequestSpec(flavor=Flavor(1, 512))).selections[0].host


def test_its_options_win_over_config_files_and_the_caller_over_both(tmp_path):
    config = tmp_path / "nova.conf"
    config.write_text("[filter_scheduler]\nram_weight_multiplier = -1\ncpu_weight_multiplier = -1\n")
    fleet = read(snapshot().to_bytes()).fleet
    assert host_of(fleet) == "a"
    assert host_of(fleet, config_files=[config]) == "a"
    stack = {"ram_weight_multiplier": -1.0, "cpu_weight_multiplier": -1.0, "disk_weight_multiplier": -1.0}
    assert host_of(fleet, options={"filter_scheduler": stack}) == "b"


def test_a_host_is_up_or_down_as_of_the_moment():
    """The age of a heartbeat is that of the moment; nothing of it depends on when it is read."""
    old = {**FLEET, "hosts": [FLEET["hosts"][0] | {"service": {"seconds_since_seen": 61}}, FLEET["hosts"][1]]}
    assert host_of(read(packed(fleet=old)).fleet) == "b"
    patient = snapshot(old, options={"DEFAULT": {"service_down_time": 100}})
    assert host_of(read(patient.to_bytes()).fleet) == "a"


def test_a_host_that_reports_seldom_is_down_as_late_as_in_the_service():
    silent = {**FLEET, "hosts": [FLEET["hosts"][0] | {"service": {"seconds_since_seen": 140}}, FLEET["hosts"][1]]}
    seldom = snapshot(silent, options={"DEFAULT": {"service_down_time": 60, "report_interval": 60}})
    assert host_of(read(seldom.to_bytes()).fleet) == "a"


PLUGINS = """
from roost.filters.base import HostFilter
from roost.weighers.base import HostWeigher

class OnlyB(HostFilter):
    def host_passes(self, host, spec):
        return host.host == "b"

class PreferB(HostWeigher):
    def _weigh_object(self, host, spec):
        return 1.0 if host.host == "b" else 0.0
"""


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """A config file that says where the code of a filter and a weigher is."""
    (tmp_path / "plugins_of_snapshots.py").write_text(PLUGINS)
    config = tmp_path / "nova.conf"
    config.write_text(
        "[filter_scheduler]\n"
        "available_filters = roost.filters.all_filters\n"
        "available_filters = plugins_of_snapshots.OnlyB\n"
        "weight_classes = plugins_of_snapshots.PreferB\n"
    )
    return config


OWN = {"filter_scheduler": {"enabled_filters": ["ComputeFilter", "plugins_of_snapshots.OnlyB"]}}
OWN_WEIGHER = {
    "filter_scheduler": {"weight_classes": ["roost.weighers.ram.RAMWeigher", "plugins_of_snapshots.PreferB"]}
}


@pytest.mark.parametrize("options", [OWN, OWN_WEIGHER])
def test_a_plugin_is_held_by_its_name_and_found_by_a_config_file(plugins, options):
    taken = read(snapshot(options=options).to_bytes())
    assert "plugins_of_snapshots" not in str(taken.options)
    with pytest.raises(BadInput) as caught:
        host_of(taken.fleet)
    assert any(name in caught.value.message for name in ("OnlyB", "PreferB"))
    assert "--config-file" in caught.value.hint
    assert host_of(taken.fleet, config_files=[plugins]) == "b"


def test_a_weigher_of_a_config_file_that_took_no_part_takes_none_now(plugins):
    assert host_of(read(snapshot().to_bytes()).fleet, config_files=[plugins]) == "a"
