# SPDX-License-Identifier: Apache-2.0
"""A fleet as a program holds it."""

import gc
import json

import pytest

from roost import Fleet, Scheduler
from roost.errors import FieldError, FleetError, OptionError, UnknownName
from roost.sources import fleet_file as aggregates

DOCUMENT = {
    "hosts": [{"host": "a"}, {"host": "b", "service": {"seconds_since_seen": 100}}],
    "aggregates": [
        {"name": "north", "hosts": ["a"], "metadata": {"availability_zone": "n1,n2"}},
        {"name": "empty", "metadata": {"availability_zone": "n3"}},
    ],
    "flavors": [{"name": "small", "id": 7, "vcpus": 1, "memory_mb": 1}],
    "images": [{"id": "image-id", "name": "debian"}, {"id": "nameless"}],
    "server_groups": [{"name": "web", "uuid": "group-id", "policy": "affinity"}],
}


def test_names_and_ids_both_find_a_record():
    fleet = Fleet.load(DOCUMENT)
    assert fleet.flavor("small") is fleet.flavor("7")
    assert fleet.image("debian") is fleet.image("image-id")
    assert fleet.server_group("web") is fleet.server_group("group-id")


def test_a_record_without_a_name_goes_by_its_id():
    assert Fleet.load(DOCUMENT).image("nameless").id == "nameless"


@pytest.mark.parametrize("kind", ["flavor", "image", "server_group"])
def test_an_unknown_name_is_an_error(kind):
    with pytest.raises(UnknownName, match=f"unknown {kind.replace('_', ' ')} 'x'"):
        getattr(Fleet.load(DOCUMENT), kind)("x")


def test_zones_are_those_of_all_aggregates_also_of_empty_ones():
    assert Fleet.load(DOCUMENT).zones() == {"n1", "n2", "n3"}


def test_a_table_of_ones_own_knows_who_is_down_by_then():
    fleet = Fleet.load(DOCUMENT)
    assert fleet.table_at(99).is_up.tolist() == [True, False]
    assert fleet.table_at(100).is_up.tolist() == [True, True]


def test_aggregates_are_numbered_and_know_their_hosts():
    fleet = Fleet.load({"hosts": [{"host": "n[1-3]"}], "aggregates": [{"name": "x", "hosts": ["n[2-3]", "n2"]}]})
    (aggregate,) = fleet.table.known_aggregates
    assert (aggregate.id, aggregate.hosts) == (1, ("n2", "n3", "n2"))


def test_a_few_patterns_may_not_stand_for_billions(monkeypatch):
    monkeypatch.setattr(aggregates, "MAX_MEMBERS", 1000)
    many = [{"name": f"x{each}", "hosts": ["n[1-300]"]} for each in range(4)]
    assert Fleet.load({"hosts": [{"host": "n[1-300]"}], "aggregates": many[:3]})
    with pytest.raises(FieldError, match=r"aggregates\[3\]\.hosts: aggregates name more than 1000 hosts in all"):
        Fleet.load({"hosts": [{"host": "n[1-300]"}], "aggregates": many})


def test_errors_of_a_mapping_have_no_file_but_the_field():
    with pytest.raises(FieldError) as caught:
        Fleet.load({"hosts": [{"host": "a", "vcpus_total": -1}]})
    assert caught.value.field == "hosts[0].vcpus_total"


def test_errors_of_a_file_have_file_and_line(tmp_path):
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"hosts": [{"host": "a"}, {"host": "b", "vcpus_total": -1}]}, indent=1))
    with pytest.raises(FleetError, match=rf"{path}, line 8: hosts\[1\]\.vcpus_total: -1 is too small"):
        Fleet.load(path)


def test_a_wrong_option_is_told_with_its_line_though_it_is_found_later(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("hosts: []\noptions:\n  scheduler:\n    max_attempts: 0\n")
    fleet = Fleet.load(path)
    with pytest.raises(OptionError, match=rf"{path}, line 4: \[scheduler\] max_attempts = 0"):
        Scheduler(fleet)
    path.unlink()
    with pytest.raises(OptionError, match=rf"{path}: \[scheduler\] max_attempts = 0"):
        Scheduler(fleet)


@pytest.mark.parametrize("text", ["hosts: []", "hosts: 5"])
@pytest.mark.parametrize("was_on", [True, False])
def test_garbage_collection_is_afterwards_what_it_was(tmp_path, text, was_on):
    path = tmp_path / "f.yaml"
    path.write_text(text)
    (gc.enable if was_on else gc.disable)()
    try:
        Fleet.load(path)
    except FleetError:
        assert text == "hosts: 5"
    finally:
        is_on = gc.isenabled()
        gc.enable()
    assert is_on is was_on
