# SPDX-License-Identifier: Apache-2.0
"""Aggregates as clients create, change, list and delete them; a host is in one zone at most."""

import time

import pytest
from tests.store.fleets import HOST, LATER, NOW, bring, changes_since, count_changes
from tests.store.statements import counted_statements, run_together

from roost.errors import BadInput, Conflict, FieldError, UnknownName
from roost.records.aggregates import (
    add_host_to_aggregate,
    create_aggregate,
    delete_aggregate,
    get_aggregate,
    list_aggregates,
    remove_host_from_aggregate,
    update_aggregate,
)
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.store.change_log import AGGREGATES, Change

SERVER = {"uuid": "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01"}
IN_TWO_ZONES = r"already in availability zone\(s\) \['north', 'south'\]"
ROUNDS = 4
"""Of several writers: the first one often finds them one after the other, while their connections are made."""
WITH_SERVERS = "One or more hosts contain instances in this zone"


@pytest.fixture
def fleet(store):
    """A store with the empty host `idle` and the host `busy`, which has a server."""
    bring(store, {"hosts": [{"host": "idle", **HOST}, {"host": "busy", **HOST, "instances": [SERVER]}]})
    return store


def create(store, name, zone=None, *hosts):
    made = create_aggregate(store, name, zone, NOW)
    for host in hosts:
        add(store, made.id, host)
    return made.id


def add(store, aggregate_id, host):
    return add_host_to_aggregate(store, aggregate_id, host, NOW, "nova")


def remove(store, aggregate_id, host):
    return remove_host_from_aggregate(store, aggregate_id, host, NOW, "nova")


def change(store, aggregate_id, name=None, **metadata):
    return update_aggregate(store, aggregate_id, LATER, "nova", name=name, metadata=metadata)


def test_an_aggregate_is_what_it_was_created_with(store):
    made = create_aggregate(store, "n", "north", NOW)
    assert (made.name, made.hosts, made.metadata) == ("n", (), {"availability_zone": "north"})
    assert (made.availability_zone, made.created_at, made.updated_at) == ("north", NOW, None)
    assert get_aggregate(store, made.id) == made
    assert list_aggregates(store) == [made]


def test_a_name_is_unique(store):
    first, second = create(store, "n"), create(store, "m")
    with pytest.raises(Conflict, match="Aggregate n already exists"):
        create_aggregate(store, "n", None, NOW)
    with pytest.raises(Conflict, match="Aggregate n already exists"):
        change(store, second, name="n")
    assert change(store, first, name="n").updated_at == LATER


def test_of_two_writers_at_once_one_creates_it(store):
    done = run_together(*[lambda: create_aggregate(store, "n", None, NOW)] * 4)
    assert sorted(type(each).__name__ for each in done) == ["AggregateRecord", *["Conflict"] * 3]


def test_names_and_zones_that_are_no_names(store):
    for name, zone in (("", None), ("n" * 256, None), ("n", "")):
        with pytest.raises(BadInput):
            create_aggregate(store, name, zone, NOW)
    with pytest.raises(FieldError):
        change(store, create(store, "n"), ssd=["true"])


def test_metadata_is_set_and_deleted_key_by_key(store):
    number = create(store, "n", "north")
    change(store, number, ssd="true", gpu="a100")
    changed = change(store, number, name="m", ssd="false", gpu=None, never=None)
    assert changed.metadata == {"availability_zone": "north", "ssd": "false"}
    assert (changed.name, changed.created_at, changed.updated_at) == ("m", NOW, LATER)


def test_writers_at_once_lose_no_metadata(store):
    number = create(store, "n")
    run_together(*[lambda key=key: change(store, number, **{key: key}) for key in "abcd"])
    assert get_aggregate(store, number).metadata == {key: key for key in "abcd"}


def test_hosts_are_added_and_removed(fleet):
    number = create(fleet, "n", None, "idle")
    assert add(fleet, number, "busy").hosts == ("busy", "idle")
    assert remove(fleet, number, "idle").hosts == ("busy",)


def test_hosts_that_cannot_be_added_or_removed(fleet):
    number = create(fleet, "n", None, "idle")
    with pytest.raises(UnknownName, match="Compute host nowhere could not be found"):
        add(fleet, number, "nowhere")
    with pytest.raises(Conflict, match=f"Aggregate {number} already has host idle"):
        add(fleet, number, "idle")
    with pytest.raises(UnknownName, match=f"Aggregate {number} has no host busy"):
        remove(fleet, number, "busy")


def test_an_aggregate_with_hosts_is_not_deleted(fleet):
    number = create(fleet, "n", None, "idle")
    with pytest.raises(BadInput, match="Host aggregate is not empty"):
        delete_aggregate(fleet, number)
    remove(fleet, number, "idle")
    delete_aggregate(fleet, number)
    assert list_aggregates(fleet) == []


def test_an_aggregate_that_is_not_there(store):
    for number in (0, 77, 2**63):
        for use, values in (
            (get_aggregate, ()),
            (delete_aggregate, ()),
            (add_host_to_aggregate, ("a", NOW, "nova")),
            (remove_host_from_aggregate, ("a", NOW, "nova")),
            (update_aggregate, (NOW, "nova")),
        ):
            with pytest.raises(UnknownName, match=f"Aggregate {number} could not be found"):
                use(store, number, *values)


# --- zones -------------------------------------------------------------------------------------------


def test_no_host_gets_into_two_zones(fleet):
    create(fleet, "n", "north", "idle")
    south = create(fleet, "s", "south")
    with pytest.raises(Conflict, match=IN_TWO_ZONES):
        add(fleet, south, "idle")
    plain = create(fleet, "p", None, "idle")
    with pytest.raises(BadInput, match=IN_TWO_ZONES) as raised:
        change(fleet, plain, availability_zone="south")
    assert not isinstance(raised.value, Conflict)
    assert get_aggregate(fleet, plain).metadata == {}
    assert add(fleet, create(fleet, "also north", "north"), "idle").hosts == ("idle",)


def test_no_server_gets_into_another_zone(fleet):
    north, nova = create(fleet, "n", "north"), create(fleet, "d", "nova", "busy")
    with pytest.raises(Conflict, match="already in availability zone"):
        add(fleet, north, "busy")
    with pytest.raises(BadInput, match=WITH_SERVERS):
        change(fleet, nova, availability_zone="north")
    assert remove(fleet, nova, "busy").hosts == ()
    with pytest.raises(Conflict, match=WITH_SERVERS):
        add(fleet, north, "busy")


def test_a_zone_changes_while_its_hosts_have_no_servers(fleet):
    number = create(fleet, "n", "north", "idle")
    assert change(fleet, number, availability_zone="south").availability_zone == "south"
    assert change(fleet, number, availability_zone=None).availability_zone is None


def test_writers_at_once_put_no_host_into_two_zones(fleet):
    numbers = [create(fleet, zone, zone) for zone in "abcd"]
    for _ in range(ROUNDS):
        run_together(*[lambda number=number: add(fleet, number, "idle") for number in numbers])
        (winner,) = [each.id for each in list_aggregates(fleet) if each.hosts]
        remove(fleet, winner, "idle")


def test_writers_at_once_give_no_host_two_zones(fleet):
    numbers = [create(fleet, name, None, "idle") for name in "abcd"]
    for _ in range(ROUNDS):
        named = [lambda number=number: change(fleet, number, availability_zone=str(number)) for number in numbers]
        run_together(*named)
        (winner,) = [each.id for each in list_aggregates(fleet) if each.availability_zone]
        change(fleet, winner, availability_zone=None)


# --- who follows, and how much is asked --------------------------------------------------------------


def test_every_change_is_in_the_change_log(fleet):
    for act in (
        lambda number: add(fleet, number, "idle"),
        lambda number: change(fleet, number, ssd="true"),
        lambda number: remove(fleet, number, "idle"),
        lambda number: delete_aggregate(fleet, number),
    ):
        known = count_changes(fleet)
        number = list_aggregates(fleet)[0].id if list_aggregates(fleet) else create(fleet, "n")
        act(number)
        assert changes_since(fleet, known) == {Change(AGGREGATES, str(number))}


def test_a_scheduler_sees_it(fleet):
    manager = make_host_manager(fleet, SchedulerOptions(), lambda: NOW, time.monotonic)
    manager.load()
    number = create(fleet, "n", "north", "idle")
    manager.refresh()
    seen = {view.host: [each.metadata for each in view.aggregates] for view in manager.table}
    assert seen == {"idle": [{"availability_zone": "north"}], "busy": []}
    remove(fleet, number, "idle")
    manager.refresh()
    assert [list(view.aggregates) for view in manager.table] == [[], []]


def test_the_number_of_statements_does_not_grow_with_the_aggregates(fleet):
    create(fleet, "n", "north", "idle")
    few = counted_statements(fleet, lambda: list_aggregates(fleet))
    for number in range(5):
        create(fleet, f"n{number}", "north", "idle")
    assert counted_statements(fleet, lambda: list_aggregates(fleet)) == few == 4
