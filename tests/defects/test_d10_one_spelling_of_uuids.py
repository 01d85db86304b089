# SPDX-License-Identifier: Apache-2.0
"""D10: a uuid in capitals, without dashes, in braces or as urn:uuid: is the same consumer at every door."""

import timeit

import pytest
from tests.flow.cloud import CONTEXT, HOST, request
from tests.unit.nova.icehouse.legacy_cloud import FLAVOR
from tests.unit.nova.icehouse.legacy_cloud import Cloud as OlderCloud

from roost import Fleet, Scheduler
from roost.errors import AlreadyClaimed, RemoteFailure
from roost.hosts import Instance
from roost.ledger.claim import Claim, StrictGroup
from roost.messages.objects.aggregates_instances import instances_to_object
from roost.messages.objects.request import request_to_object
from roost.model import ServerGroup
from roost.model.resources import move_of
from roost.model.uuids import canonical_uuid
from roost.records.fleet_import import import_fleet
from roost.records.reports import save_report

INSTANCE = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01"
OTHER = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e02"
GROUP = "d3adbeef-5ef2-4a3e-9d7b-0c9b8f7a1e77"
THREE = {"a": {}, "b": {"total_usable_ram_mb": 30000}, "c": {"total_usable_ram_mb": 20000}}
BY_RAM = {"filter_scheduler": {"weight_classes": ["RAMWeigher"]}}


def spellings(uuid):
    digits = uuid.replace("-", "")
    return [uuid.upper(), digits, digits.upper(), f"{{{uuid}}}", f"{{{digits}}}", f"urn:uuid:{uuid}"]


@pytest.fixture(params=range(6), ids=["capitals", "digits", "capital-digits", "braces", "brace-digits", "urn"])
def spell(request):
    """A function that spells a uuid in another way."""
    return lambda uuid: spellings(uuid)[request.param]


@pytest.fixture
def cloud(make_cloud):
    made = make_cloud(THREE, BY_RAM)
    made.service()
    return made


# --- the function ---


def test_d10_every_spelling_is_brought_to_one(spell):
    assert canonical_uuid(spell(INSTANCE)) == INSTANCE


@pytest.mark.parametrize(
    "text", ["", "vm-1", INSTANCE[:-1], INSTANCE + "0", "{" + INSTANCE, INSTANCE[:-1] + "g", "A" * 36, "A" * 100_000]
)
def test_d10_a_text_that_is_no_uuid_stays_as_it_is(text):
    assert canonical_uuid(text) == text


def test_d10_a_canonical_uuid_costs_next_to_nothing():
    seconds = min(timeit.repeat(lambda: canonical_uuid(INSTANCE), number=10_000, repeat=5))
    assert seconds / 10_000 < 1e-6


# --- messages ---


def test_d10_one_instance_in_three_spellings_holds_one_claim(cloud):
    client = cloud.client()
    three = INSTANCE, INSTANCE.upper(), INSTANCE.replace("-", "")
    for spelt in three:
        client.select_destinations(CONTEXT, request(), [spelt])
    assert cloud.held(*three) == {INSTANCE: ["a"]}


def test_d10_the_instance_of_a_request_without_uuids_beside_it(cloud, spell):
    cloud.send("select_destinations", "4.3", spec_obj=request_to_object(request(instance_uuid=spell(INSTANCE))))
    assert cloud.held(INSTANCE) == {INSTANCE: ["a"]}


def test_d10_an_instance_that_left_in_another_spelling_holds_nothing(cloud, spell):
    client = cloud.client()
    client.select_destinations(CONTEXT, request(), [INSTANCE])
    client.delete_instance_info(CONTEXT, "a", spell(INSTANCE))
    assert cloud.held(INSTANCE) == {}


def test_d10_reported_instances_are_known_in_one_spelling(cloud, spell):
    replica = cloud.services[0].manager.replica
    replica.update_instance_info("b", [])  # the host is known
    reported = instances_to_object([Instance(OTHER)])
    reported["nova_object.data"]["objects"][0]["nova_object.data"]["uuid"] = spell(OTHER)
    cloud.send("update_instance_info", "4.2", host_name="b", instance_info=reported)
    assert replica.table.rows_of_instance(OTHER) == (1,)
    cloud.send("sync_instance_info", "4.2", host_name="b", instance_uuids=[spell(OTHER)])
    assert replica.table.rows_of_instance(OTHER) == (1,)
    cloud.send("delete_instance_info", "4.2", host_name="b", instance_uuid=spell(OTHER))
    assert replica.table.rows_of_instance(OTHER) == ()


def test_d10_hints_name_instances_in_any_spelling(make_cloud, spell):
    filters = ["DifferentHostFilter", "SameHostFilter"]
    cloud = make_cloud(THREE, {"filter_scheduler": {**BY_RAM["filter_scheduler"], "enabled_filters": filters}})
    cloud.service()
    client = cloud.client()
    client.select_destinations(CONTEXT, request(), [INSTANCE])
    elsewhere = client.select_destinations(
        CONTEXT, request(scheduler_hints={"different_host": spell(INSTANCE)}), [OTHER]
    )
    assert [each["host"] for each in elsewhere] == ["b"]
    there = request(scheduler_hints={"same_host": [spell(OTHER)]})
    assert [each["host"] for each in client.select_destinations(CONTEXT, there, [GROUP])] == ["b"]


def test_d10_a_group_and_its_members_in_any_spelling(cloud, spell):
    client = cloud.client()
    group = ServerGroup("anti-affinity", "g", GROUP)
    client.select_destinations(CONTEXT, request(instance_group=group), [INSTANCE])
    again = ServerGroup("anti-affinity", "g", spell(GROUP), members=(spell(INSTANCE),))
    assert (again.uuid, again.members) == (GROUP, (INSTANCE,))
    message = request_to_object(request(instance_group=group))
    message["nova_object.data"]["instance_group"]["nova_object.data"]["uuid"] = spell(GROUP)
    (chosen,) = cloud.send("select_destinations", "4.4", spec_obj=message, instance_uuids=[OTHER])
    assert chosen["host"] == "b"
    assert cloud.ledger.read_group_members(spell(GROUP)) == [INSTANCE, OTHER]


# --- what is echoed ---


def test_d10_notifications_have_the_spelling_of_the_caller(make_cloud, spell):
    cloud = make_cloud(THREE, {**BY_RAM, "notifications": {"notification_format": "both"}})
    cloud.service()
    message = request_to_object(request(instance_uuid=INSTANCE))
    message["nova_object.data"]["instance_uuid"] = spell(INSTANCE)
    cloud.send("select_destinations", "4.4", spec_obj=message, instance_uuids=[spell(INSTANCE)])
    assert cloud.held(INSTANCE) == {INSTANCE: ["a"]}
    payloads = [each.payload for each in cloud.notifications]
    unversioned = [each["request_spec"]["instance_properties"]["uuid"] for each in payloads if "request_spec" in each]
    versioned = [each["nova_object.data"]["instance_uuid"] for each in payloads if "nova_object.data" in each]
    assert unversioned == versioned == [spell(INSTANCE)] * 2


@pytest.fixture
def older(tmp_path):
    """A cloud of Icehouse's time, with two hosts."""
    made = OlderCloud(tmp_path, {"a": {}, "b": {}})
    yield made
    made.close()


def older_request(spelt):
    properties = {"uuid": spelt, "project_id": "p"}
    return {"instance_properties": properties, "instance_type": FLAVOR, "instance_uuids": [spelt]}


def test_d10_an_agent_is_sent_the_spelling_of_the_caller(older, spell):
    spelt = spell(INSTANCE)
    older.older.run_instance(CONTEXT, older_request(spelt), filter_properties={})
    assert [each["instance"]["uuid"] for _, each in older.told("run_instance")] == [spelt]
    assert list(older.holders(spelt)) == [INSTANCE]
    assert {each.payload["instance_id"] for each in older.notifications if "instance_id" in each.payload} == {spelt}


def test_d10_a_resize_in_another_spelling_moves_the_instance(older, spell):
    older.older.run_instance(CONTEXT, older_request(INSTANCE), filter_properties={})
    ((home, _),) = older.told("run_instance")
    spelt = spell(INSTANCE)
    instance = {"uuid": spelt, "host": home, "node": home, "vm_state": "active"}
    avoiding = {"ignore_hosts": [home]}
    older.older.prep_resize(CONTEXT, instance, FLAVOR, {}, {"instance_properties": instance}, avoiding, [])
    ((_, sent),) = older.told("prep_resize")
    assert (sent["instance"]["uuid"], sent["request_spec"]["instance_uuids"]) == (spelt, [spelt])
    assert len(older.holders(INSTANCE)[INSTANCE]) == 1
    assert older.holders(move_of(INSTANCE)) == {move_of(INSTANCE): [home]}


# --- files, the library and the ledger ---


def test_d10_a_fleet_file_lists_an_instance_in_any_spelling(spell):
    listed = {"hosts": [{"host": "a", **HOST, "instances": [spell(INSTANCE), {"uuid": spell(OTHER)}]}]}
    table = Fleet.load(listed).table
    assert [table.rows_of_instance(each) for each in (INSTANCE, OTHER)] == [(0,), (0,)]


def test_d10_an_import_finds_the_claim_of_an_instance_that_it_spells_in_another_way(cloud, spell):
    cloud.client().select_destinations(CONTEXT, request(), [INSTANCE])
    entry = {"uuid": spell(INSTANCE), "resources": {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 10}}
    cloud.bring({"hosts": [{"host": "a", **HOST, "instances": [entry]}]})
    assert cloud.held(INSTANCE) == {INSTANCE: ["a"]}
    with cloud.engine.connect() as connection:
        assert connection.exec_driver_sql("select uuid from consumers").scalars().all() == [INSTANCE]


def test_d10_a_node_is_the_same_in_another_spelling_of_its_uuid(make_cloud, spell):
    cloud = make_cloud({"a": {"uuid": spell(GROUP)}})
    assert cloud.manager().claims.select(request(), [INSTANCE]).decision.selections[0].host == "a"
    assert list(cloud.holdings([INSTANCE])[INSTANCE]) == [GROUP]
    again = Fleet.load({"hosts": [{"host": "a", **HOST, "uuid": GROUP.upper()}]}, keeps_records=True)
    import_fleet(cloud.engine, again, cloud.clock.now())
    save_report(cloud.engine, again.runs[0][0], cloud.clock.now())


def test_d10_the_library_places_an_instance_in_one_spelling(spell):
    scheduler = Scheduler(Fleet.load({"hosts": [{"host": "a", **HOST}]}))
    decision = scheduler.place(request(instance_uuid=spell(INSTANCE)))
    assert decision.selections[0].instance_uuid == INSTANCE


def test_d10_the_ledger_takes_any_spelling(cloud, spell):
    ledger = cloud.ledger
    with cloud.engine.connect() as connection:
        nodes = dict(map(tuple, connection.exec_driver_sql("select host, uuid from compute_nodes")))
    group = StrictGroup(spell(GROUP), "anti-affinity")
    ledger.claim([Claim(spell(INSTANCE), nodes["a"], {"VCPU": 1}, group=group)])
    ledger.claim([Claim(INSTANCE, nodes["a"], {"VCPU": 1}, group=group._replace(uuid=GROUP))])
    with pytest.raises(AlreadyClaimed):
        ledger.claim([Claim(INSTANCE.upper(), nodes["b"], {"VCPU": 1})])
    ledger.start_move(spell(OTHER), Claim(spell(INSTANCE), nodes["b"], {"VCPU": 1}))
    assert cloud.held(INSTANCE, spell(OTHER)) == {INSTANCE: ["b"], OTHER: ["a"]}
    assert ledger.undo_move(OTHER.upper(), spell(INSTANCE))
    assert ledger.release([INSTANCE, spell(INSTANCE)]) == 1


def test_d10_a_consumer_that_a_version_before_wrote_in_another_spelling_can_be_released(cloud):
    ledger, spelt = cloud.ledger, INSTANCE.upper()
    cloud.client().select_destinations(CONTEXT, request(), [INSTANCE])
    with cloud.engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = on")
        connection.exec_driver_sql("update consumers set uuid = upper(uuid)")
        connection.exec_driver_sql("update allocations set consumer_uuid = upper(consumer_uuid)")
    assert ledger.release([spelt]) == 1


def test_d10_a_request_that_names_an_instance_twice_is_refused_in_any_spelling(cloud, spell):
    with pytest.raises(RemoteFailure, match="twice"):
        cloud.client().select_destinations(CONTEXT, request(), [INSTANCE, spell(INSTANCE)])
