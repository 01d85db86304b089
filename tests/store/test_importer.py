# SPDX-License-Identifier: Apache-2.0
"""A fleet on its way into the store: all of it, only what differs, or nothing at all."""

import copy
import json
import threading
from datetime import timedelta

import pytest
from tests.store.fleets import (
    HOST,
    INSTANCE,
    LATER,
    NOW,
    UUID,
    bring,
    changes_since,
    check_sums,
    claim,
    count_changes,
    document,
    one,
    one_host,
    read,
    tables,
    wipe,
    write,
)

from roost.errors import BadInput, DatabaseConflict
from roost.hosts import HostRecord, HostTable
from roost.hosts.record import default_node_uuid
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.ledger.operations import Holding, StartMove
from roost.model import Aggregate
from roost.model.resources import Use
from roost.records.fleet_import import OPTIONS_NOTE, import_fleet
from roost.records.import_summary import ImportCounts
from roost.records.node_rows import unlisted_uuid
from roost.sources.fleet_file import Fleet
from roost.store.change_log import AGGREGATES, NODES, SERVERS, SERVICES, USAGE, Change
from roost.store.schema.fleet import aggregate_hosts, allocations, compute_nodes, consumers, inventories, services
from roost.store.schema.fleet import aggregates as aggregates_table
from roost.store.schema.servers import flavors, servers

OTHER = UUID % 99


@pytest.fixture
def store(current):
    yield current
    wipe(current)


def amounts(engine, host, node=None):
    """Class -> (total, reserved, used) of a node."""
    table = inventories
    number = node_id(engine, host, node)
    rows = read(engine, table, table.c.node_id, table.c.resource_class, table.c.total, table.c.reserved, table.c.used)
    return {name: tuple(rest) for owner, name, *rest in rows if owner == number}


def node_id(engine, host, node=None):
    return one(engine, compute_nodes, host=host, hypervisor_hostname=node or host).id


# --- the first time ----------------------------------------------------------------------------------


def test_everything_is_counted_as_new(store):
    done = bring(store, document())
    assert (done.hosts, done.aggregates, done.flavors) == (ImportCounts(4), ImportCounts(2), ImportCounts(2))
    assert (done.images, done.server_groups) == (ImportCounts(2), ImportCounts(1))
    assert (done.hosts_left_alone, done.notes) == (0, ())
    check_sums(store)


def test_a_node_has_what_the_file_says(store):
    bring(store, document())
    node = one(store, compute_nodes, host="b")
    assert (node.vcpus, node.memory_mb, node.local_gb) == (8, 16384, 100)
    assert (node.vcpus_used, node.free_ram_mb, node.memory_mb_used) == (3, 8192, 8192)
    assert (node.free_disk_gb, node.local_gb_used, node.disk_available_least) == (50, 50, None)
    assert (node.uuid, node.cell, node.created_at, node.updated_at) == (
        default_node_uuid("b", "b"),
        "cell1",
        NOW,
        None,
    )
    assert one(store, compute_nodes, host="a").running_vms == 2


def test_inventories_are_used_by_instances_and_by_nobody_we_know(store):
    bring(store, document())
    assert amounts(store, "a") == {"VCPU": (8, 0, 2), "MEMORY_MB": (16384, 0, 1024), "DISK_GB": (100, 0, 10)}
    assert amounts(store, "b") == {"VCPU": (8, 0, 3), "MEMORY_MB": (16384, 512, 7680), "DISK_GB": (100, 0, 50)}
    assert amounts(store, "metal", "n2")["PGPU"] == (4, 0, 0)
    consumer = one(store, consumers, kind="unlisted")
    assert consumer.uuid == unlisted_uuid(default_node_uuid("b", "b"))


def test_an_instance_is_a_consumer_and_a_server(store):
    bring(store, document())
    consumer = one(store, consumers, uuid=UUID % 1)
    small = one(store, flavors, name="small")
    assert (consumer.kind, consumer.project_id) == ("instance", "p1")
    assert consumer.details == {"flavor_id": small.id, "image_props": {"os_distro": "debian"}}
    server = one(store, servers, uuid=UUID % 1)
    assert (server.name, server.host, server.node, server.vm_state) == (UUID % 1, "a", "a", "active")
    idle = one(store, servers, uuid=UUID % 2)
    assert (idle.host, one(store, consumers, uuid=UUID % 2).details) == ("a", {})


def test_a_flavor_id_that_no_flavor_has_stays_as_it_is(store):
    bring(store, one_host(instances=[{"uuid": UUID % 1, "flavor_id": 77}]))
    assert one(store, consumers, uuid=UUID % 1).details == {"flavor_id": 77}


@pytest.mark.parametrize(
    ("service", "is_static", "last_seen_up", "created_at"),
    [
        ({}, True, None, NOW),
        ({"up": True}, True, None, NOW),
        ({"up": False}, False, None, None),
        ({"seconds_since_seen": 90}, False, NOW - timedelta(seconds=90), NOW),
        ({"seconds_since_seen": 1e14}, False, NOW - timedelta(days=3650), NOW),
    ],
)
def test_who_is_alive(store, service, is_static, last_seen_up, created_at):
    bring(store, one_host(service={**service, "disabled": True, "disabled_reason": "broken fan"}))
    row = one(store, services, host="a")
    assert (row.is_static, row.last_seen_up, row.created_at) == (is_static, last_seen_up, created_at)
    assert (row.disabled, row.disabled_reason, row.forced_down) == (True, "broken fan", False)
    assert (row.binary, row.topic) == ("nova-compute", "compute")


def test_a_host_with_two_nodes_has_one_service(store):
    bring(store, document())
    assert [host for (host,) in read(store, services, services.c.host)] == ["a", "b", "metal"]


def test_new_nodes_services_and_aggregates_are_changes(store):
    bring(store, document())
    found = changes_since(store)
    assert {each.key for each in found if each.subject == SERVICES} == {"a", "b", "metal"}
    assert len([each for each in found if each.subject == NODES]) == 4
    assert len([each for each in found if each.subject == AGGREGATES]) == 2
    assert {each.subject for each in found} == {NODES, SERVICES, AGGREGATES}


# --- again -------------------------------------------------------------------------------------------


def test_the_same_file_again_writes_nothing_at_all(store):
    bring(store, document())
    before = tables(store)
    done = bring(store, document(), LATER)
    assert tables(store) == before
    assert (done.hosts, done.aggregates, done.flavors) == (
        ImportCounts(0, 0, 4),
        ImportCounts(0, 0, 2),
        ImportCounts(0, 0, 2),
    )
    assert (done.images, done.server_groups) == (ImportCounts(0, 0, 2), ImportCounts(0, 0, 1))


def test_the_same_in_another_order_is_the_same(store):
    stats = {"one": 1, "two": {"x": 1, "y": 2.0}}
    bring(store, one_host(stats=stats))
    before = tables(store)
    bring(store, one_host(stats=dict(reversed(stats.items()))), LATER)
    assert tables(store) == before


def change_of(*path, to):
    def change(fleet):
        *way, last = path
        for step in way:
            fleet = fleet[step]
        fleet[last] = to

    return change


@pytest.mark.parametrize(
    ("change", "written", "subject"),
    [
        (change_of("hosts", 1, "vcpus_total", to=9), {"compute_nodes", "inventories"}, NODES),
        (change_of("hosts", 0, "traits", to=["CUSTOM_A"]), {"node_traits"}, NODES),
        (change_of("hosts", 0, "cpu_info", to={"arch": "x86_64"}), {"compute_nodes"}, NODES),
        (change_of("hosts", 3, "resources", to={}), {"inventories"}, NODES),
        (change_of("hosts", 3, "resources", to={"PGPU": {"total": 5}}), {"inventories"}, NODES),
        (change_of("hosts", 1, "service", to={"disabled": True}), {"services"}, SERVICES),
        (change_of("hosts", 1, "service", to={"up": False}), {"services"}, SERVICES),
        (change_of("aggregates", 0, "hosts", to=["b"]), {"aggregate_hosts"}, AGGREGATES),
        (change_of("aggregates", 0, "metadata", to={"ssd": "no"}), {"aggregate_metadata"}, AGGREGATES),
        (change_of("hosts", 0, "instances", 0, "project_id", to="p2"), {"consumers", "servers"}, USAGE),
        (change_of("flavors", 0, "vcpus", to=3), {"flavors"}, None),
        (change_of("flavors", 0, "extra_specs", to={}), {"flavor_extra_specs"}, None),
        (change_of("images", 0, "properties", to={"os_distro": "other"}), {"images"}, None),
        (change_of("server_groups", 0, "members", to=[UUID % 2]), {"server_group_members"}, None),
        (change_of("server_groups", 0, "policy", to="affinity"), {"server_groups"}, None),
    ],
)
def test_a_changed_file_changes_only_what_differs(store, change, written, subject):
    bring(store, document())
    before, known = tables(store), count_changes(store)
    fleet = copy.deepcopy(document())
    change(fleet)
    bring(store, fleet, LATER)
    after = tables(store)
    assert {name for name in after if after[name] != before[name]} - {"changes"} == written
    subjects = {each.subject for each in changes_since(store, known)}
    assert subjects - {SERVERS} == ({subject} if subject else set())
    check_sums(store)
    assert bring(store, fleet, LATER).hosts.changed == 0


def test_a_changed_amount_of_an_instance(store):
    bring(store, document())
    known = count_changes(store)
    fleet = copy.deepcopy(document())
    fleet["hosts"][0]["instances"][0]["resources"] = {"VCPU": 4, "MEMORY_MB": 1024, "PGPU": 1}
    assert bring(store, fleet, LATER).hosts == ImportCounts(0, 1, 3)
    number = node_id(store, "a")
    assert changes_since(store, known) == {Change(NODES, str(number)), Change(USAGE, f"{number}/{UUID % 1}")}
    assert {name: used for name, (_, _, used) in amounts(store, "a").items()} == {
        "VCPU": 4,
        "MEMORY_MB": 1024,
        "DISK_GB": 0,
    }
    check_sums(store)


def test_use_that_nobody_accounts_for_any_more_is_gone(store):
    bring(store, one_host(vcpus_used=5))
    bring(store, one_host(vcpus_used=0), LATER)
    assert read(store, consumers) == []
    assert amounts(store, "a")["VCPU"] == (8, 0, 0)


def test_an_instance_that_moved_in_the_file_moves_in_the_store(store):
    there = {"host": "b", **HOST}
    bring(store, {"hosts": [{"host": "a", **HOST, "instances": [INSTANCE]}, there]})
    known = count_changes(store)
    bring(store, {"hosts": [{"host": "a", **HOST}, {**there, "instances": [INSTANCE]}]}, LATER)
    assert one(store, servers, uuid=UUID % 1).host == "b"
    assert (amounts(store, "a")["VCPU"][2], amounts(store, "b")["VCPU"][2]) == (0, 2)
    a, b = node_id(store, "a"), node_id(store, "b")
    assert {Change(USAGE, f"{a}/{UUID % 1}"), Change(USAGE, f"{b}/{UUID % 1}"), Change(SERVERS, UUID % 1)} <= (
        changes_since(store, known)
    )
    check_sums(store)


def test_an_instance_on_two_nodes_holds_something_on_both(store):
    hosts = [{"host": name, **HOST, "instances": [INSTANCE]} for name in ("a", "b")]
    bring(store, {"hosts": hosts})
    write(store, servers.update().values(host="b", node="b"))
    before = tables(store)
    bring(store, {"hosts": hosts}, LATER)
    assert tables(store) == before
    assert (amounts(store, "a")["VCPU"][2], amounts(store, "b")["VCPU"][2]) == (2, 2)


# --- what others did since ---------------------------------------------------------------------------


def test_a_claim_made_since_stays_and_comes_on_top_of_the_file(store):
    bring(store, document())
    claim(store, OTHER, "b", {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 21}, {"use": [2048, 20, 2]})
    bring(store, document(), LATER)
    node = one(store, compute_nodes, host="b")
    assert (node.vcpus_used, node.free_ram_mb, node.memory_mb_used) == (5, 6144, 10240)
    assert (node.free_disk_gb, node.local_gb_used, node.running_vms) == (30, 70, 1)
    assert {name: used for name, (_, _, used) in amounts(store, "b").items()} == {
        "VCPU": 5,
        "MEMORY_MB": 9728,
        "DISK_GB": 71,
    }
    check_sums(store)
    before = tables(store)
    bring(store, document(), LATER)
    assert tables(store) == before


CLAIMED = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 21}


def used_of(engine, host):
    return {name: used for name, (_, _, used) in amounts(engine, host).items()}


@pytest.mark.parametrize("listed", [OTHER, {"uuid": OTHER, "project_id": "p", "resources": {}}])
def test_an_instance_listed_without_resources_keeps_its_claim(store, listed):
    """The file says nothing of amounts: figures that follow from the instances count what is booked."""
    bring(store, one_host())
    claim(store, OTHER, "a", CLAIMED, {"use": [2048, 20, 2]})
    bring(store, one_host(instances=[listed]), LATER)
    assert used_of(store, "a") == CLAIMED
    node = one(store, compute_nodes, host="a")
    assert (node.vcpus_used, node.free_ram_mb, node.free_disk_gb, node.running_vms) == (2, 16384 - 2048, 80, 1)
    assert one(store, servers, uuid=OTHER).host == "a"
    check_sums(store)
    before = tables(store)
    bring(store, one_host(instances=[listed]), LATER)
    assert tables(store) == before


def test_reported_figures_count_an_instance_listed_without_resources(store):
    """What they have beside its claim is unlisted use."""
    bring(store, one_host())
    claim(store, OTHER, "a", CLAIMED, {"use": [2048, 20, 2]})
    figures = {"vcpus_used": 3, "free_ram_mb": 8192, "free_disk_mb": 50 * 1024, "num_instances": 4}
    bring(store, one_host(instances=[OTHER], **figures), LATER)
    assert used_of(store, "a") == {"VCPU": 3, "MEMORY_MB": 8192, "DISK_GB": 50}
    node = one(store, compute_nodes, host="a")
    assert (node.vcpus_used, node.free_ram_mb, node.free_disk_gb, node.running_vms) == (3, 8192, 50, 4)
    check_sums(store)


def test_a_claim_on_another_host_stays_too(store):
    """The target of a move, for one, while the file says where the server is."""
    hosts = [{"host": name, **HOST} for name in ("a", "b")]
    bring(store, {"hosts": hosts})
    claim(store, OTHER, "b", CLAIMED, {"use": [2048, 20, 2]})
    bring(store, {"hosts": [{**hosts[0], "instances": [OTHER]}, hosts[1]]}, LATER)
    assert (used_of(store, "a")["VCPU"], used_of(store, "b")) == (0, CLAIMED)
    node = one(store, compute_nodes, host="b")
    assert (node.vcpus_used, node.running_vms) == (2, 1)
    assert one(store, servers, uuid=OTHER).host == "a"
    check_sums(store)


def test_resources_on_one_host_say_what_it_holds_on_the_others(store):
    bring(store, {"hosts": [{"host": name, **HOST} for name in ("a", "b")]})
    claim(store, OTHER, "a", CLAIMED)
    sized = {"uuid": OTHER, "resources": {"VCPU": 1}}
    listed = [{"host": "a", **HOST, "instances": [OTHER]}, {"host": "b", **HOST, "instances": [sized]}]
    bring(store, {"hosts": listed}, LATER)
    assert (used_of(store, "a")["VCPU"], used_of(store, "b")["VCPU"]) == (0, 1)
    check_sums(store)


def test_a_flavor_does_not_say_what_an_instance_holds(store):
    bring(store, one_host(instances=[{"uuid": OTHER, "flavor": {"vcpus": 4, "memory_mb": 512}}]))
    assert used_of(store, "a")["VCPU"] == 0


def test_a_claim_without_a_note_counts_as_what_it_holds(store):
    bring(store, one_host())
    claim(store, OTHER, "a", {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20})
    bring(store, one_host(), LATER)
    node = one(store, compute_nodes, host="a")
    assert (node.vcpus_used, node.free_ram_mb, node.free_disk_gb) == (2, 14336, 80)


def test_the_hosts_of_a_move_under_way_count_what_they_counted_before(store):
    fleet = {"hosts": [{**HOST, "host": name} for name in "abc"]}
    bring(store, fleet)
    nodes, ledger, migration = {name: default_node_uuid(name, name) for name in "abc"}, Ledger(store), UUID % 98
    for vcpus, name in enumerate("abc", start=1):  # two moves: of neither it is known whether it has ended
        amounts_there = {"VCPU": vcpus, "MEMORY_MB": 512 * vcpus}
        wanted = Claim(OTHER, nodes[name], amounts_there, Use(512 * vcpus, 0, vcpus))
        held = ledger.read_allocations([OTHER, migration])
        seen = Holding(held.get(OTHER, {}), held.get(migration, {}))
        if name == "a":
            ledger.claim([wanted])
        else:
            ledger.claim_and_move([], [StartMove(migration, wanted, seen)])

    def counted():
        nodes = [one(store, compute_nodes, host=name) for name in "abc"]
        return [(each.vcpus_used, each.memory_mb_used, each.free_ram_mb, each.running_vms) for each in nodes]

    before = counted()
    bring(store, fleet, LATER)
    assert counted() == before
    ledger.release([OTHER, migration])
    assert [one(store, compute_nodes, host=name).running_vms for name in "abc"] == [0, 0, 0]


def test_a_claimed_bare_metal_node_stays_taken_as_a_whole(store):
    bring(store, one_host(hypervisor_type="ironic"))
    claim(store, OTHER, "a", {"VCPU": 32, "MEMORY_MB": 16384, "DISK_GB": 100})
    bring(store, one_host(hypervisor_type="ironic"), LATER)
    node = one(store, compute_nodes, host="a")
    assert (node.free_ram_mb, node.free_disk_gb, node.vcpus_used, node.running_vms) == (0, 0, 8, 0)


def test_what_the_ledger_noted_of_a_listed_instance_is_kept(store):
    bring(store, one_host(instances=[INSTANCE]))
    noted = {"flavor_id": 1, "use": [1024, 10, 2]}
    write(store, consumers.update().where(consumers.c.uuid == UUID % 1).values(details=noted))
    bring(store, one_host(instances=[INSTANCE]), LATER)
    details = one(store, consumers, uuid=UUID % 1).details
    assert details == {"flavor_id": "f-1", "image_props": {"os_distro": "debian"}, "use": [1024, 10, 2]}


def test_an_agent_that_took_over_keeps_its_heartbeat(store):
    bring(store, one_host())
    write(store, services.update().values(is_static=False, last_seen_up=LATER))
    before = tables(store)
    bring(store, one_host(), LATER)
    assert tables(store) == before
    bring(store, one_host(service={"up": True}), LATER)
    row = one(store, services, host="a")
    assert (row.is_static, row.last_seen_up) == (True, None)


def test_hosts_and_sections_that_the_file_does_not_name_are_left_alone(store):
    bring(store, document())
    before = tables(store)
    done = bring(store, {"hosts": [{"host": "new", **HOST}], "flavors": [{"name": "f", "vcpus": 1, "memory_mb": 1}]})
    assert (done.hosts, done.hosts_left_alone) == (ImportCounts(1), 4)
    after = tables(store)
    for name in ("compute_nodes", "services", "aggregates", "flavors", "consumers"):
        assert set(before[name]) <= set(after[name])


def test_a_host_that_the_file_does_not_name_stays_in_its_aggregate(store):
    bring(store, document())
    aggregates = [{"name": "north", "metadata": {"availability_zone": "north", "ssd": "true"}}]
    bring(store, {"hosts": [{"host": "b", **HOST}], "aggregates": aggregates})
    assert [host for _, host in read(store, aggregate_hosts)] == ["a"]


def test_hosts_may_say_themselves_which_aggregates_they_are_in(store):
    own = {"name": "own", "metadata": {"x": 1}}
    bring(store, {"hosts": [{"host": name, **HOST, "aggregates": [own]} for name in ("a", "b")]})
    assert [host for _, host in read(store, aggregate_hosts)] == ["a", "b"]


# --- dry run, notes, progress ------------------------------------------------------------------------


def test_a_dry_run_says_what_would_change_and_changes_nothing(store):
    bring(store, document())
    before = tables(store)
    fleet = copy.deepcopy(document())
    fleet["hosts"][0]["vcpus_total"] = 9
    fleet["hosts"].append({"host": "new", **HOST})
    done = bring(store, fleet, LATER, is_dry_run=True)
    assert (done.hosts, tables(store)) == (ImportCounts(1, 1, 3), before)


def test_options_are_not_stored_and_that_is_said(store):
    assert bring(store, one_host() | {"options": {"filter_scheduler": {}}}).notes == (OPTIONS_NOTE,)


def test_progress_adds_up_to_all_hosts(store):
    seen = []
    bring(store, document(), progress=seen.append)
    assert sum(seen) == 4


def test_a_fleet_without_records_cannot_be_imported(store):
    with pytest.raises(ValueError, match="keeps_records"):
        import_fleet(store, Fleet.load(one_host()), NOW)


def test_an_empty_fleet_is_no_mistake(store):
    assert bring(store, {}).hosts == ImportCounts()


# --- wrong input -------------------------------------------------------------------------------------

LONG = "x" * 256


def with_uuid(host, uuid):
    return {"hosts": [{"host": host, **HOST, "uuid": uuid}]}


@pytest.mark.parametrize(
    ("fleet", "words"),
    [
        (
            with_uuid("other", default_node_uuid("a", "a")),
            ("host other", default_node_uuid("a", "a"), "belongs to host a", "delete"),
        ),
        (with_uuid("a", UUID % 7), ("host a", f"not {UUID % 7}", "delete the old node first")),
        ({"hosts": [{"host": LONG}]}, ("host: ", "256 characters", "at most 255")),
        ({"hosts": [{"host": "new", "node": LONG}]}, ("hypervisor_hostname", "256 characters")),
        ({"hosts": [{"host": "new", "uuid": "u" * 37}]}, ("host new", "uuid", "at most 36")),
        ({"hosts": [{"host": "new", "host_ip": "1" * 46}]}, ("host new", "host_ip", "at most 45")),
        ({"hosts": [{"host": "new", "cell": LONG}]}, ("cell", "at most 255")),
        ({"hosts": [{"host": "new", "traits": ["T" * 256]}]}, ("host new", "trait", "at most 255")),
        ({"hosts": [{"host": "new", "instances": ["i" * 37]}]}, ("instance", "at most 36")),
        ({"hosts": [{"host": "new", "hypervisor_type": "a\0b"}]}, ("hypervisor_type", "NUL")),
        ({"hosts": [{"host": "new", "hypervisor_type": "\ud800"}]}, ("hypervisor_type", "half a character")),
        ({"hosts": [{"host": "new", "service": {"disabled_reason": "\0"}}]}, ("host new", "disabled_reason", "NUL")),
        (
            {"hosts": [{"host": "new", "resources": {f"CUSTOM_{'A' * 250}": {"total": 1}}}]},
            ("host new", "resource_class"),
        ),
        ({"aggregates": [{"name": LONG}]}, ("aggregate", "name", "at most 255")),
        ({"aggregates": [{"name": "n", "metadata": {"k": "\0"}}]}, ("aggregate metadata", "NUL")),
        ({"aggregates": [{"name": "n", "uuid": "{north}"}]}, ("aggregate n", "north has uuid")),
        (
            {"flavors": [{"name": "n", "flavorid": "l", "vcpus": 1, "memory_mb": 1}]},
            ("flavor n", "large has flavorid"),
        ),
        ({"flavors": [{"name": LONG, "vcpus": 1, "memory_mb": 1}]}, ("flavor", "flavorid", "at most 255")),
        ({"images": [{"name": "other", "id": "image-2"}]}, ("image other", "image-1")),
        ({"images": [{"name": "x", "id": LONG}]}, ("image x", "id", "at most 255")),
        ({"server_groups": [{"name": "apart", "policy": None, "uuid": UUID % 8}]}, ("server group apart",)),
        ({"server_groups": [{"name": "g", "policy": None, "members": ["m" * 37]}]}, ("server group", "at most 36")),
        (
            {"hosts": [{"host": "h", "node": node, "service": {"up": node == "n1"}} for node in ("n1", "n2")]},
            ("host h", "one service"),
        ),
        ({"hosts": [{"host": host, "instances": [UUID % 5]} for host in ("x", "y")]}, (UUID % 5, "host x", "host y")),
        (
            {
                "hosts": [
                    {"host": host, "instances": [{**INSTANCE, "uuid": UUID % 5, "project_id": host}]}
                    for host in ("x", "y")
                ]
            },
            (UUID % 5, "describe it differently"),
        ),
        (
            {
                "hosts": [
                    {"host": host, "aggregates": [{"name": "g", "metadata": {"x": host}}]} for host in ("x", "y")
                ]
            },
            ("aggregate g", "twice"),
        ),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(store, fleet, words):
    bring(store, document())
    before = tables(store)
    north = one(store, aggregates_table, name="north").uuid
    fleet = json.loads(json.dumps(fleet).replace("{north}", north))
    with pytest.raises(BadInput) as caught:
        bring(store, fleet, LATER)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)
    assert tables(store) == before


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (HostRecord("a", vcpus_total=2**63), ("host a", "vcpus", str(2**63))),
        (HostRecord("a", cpu_allocation_ratio=float("nan")), ("host a", "cpu_allocation_ratio", "nan")),
        (HostRecord("a", ram_allocation_ratio=float("inf")), ("host a", "ram_allocation_ratio", "inf")),
        (HostRecord("a", aggregates=(Aggregate("g", hosts=("nobody",)),)), ("aggregate g", "nobody")),
    ],
)
def test_what_no_fleet_file_could_say(store, record, words):
    fleet = Fleet(HostTable.of([record]), runs=((record, [("a", "a")]),))
    with pytest.raises(BadInput) as caught:
        import_fleet(store, fleet, NOW)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert read(store, compute_nodes) == []


def test_the_nearest_host_is_named_for_one_that_an_aggregate_has_and_nothing_else(store):
    bring(store, {"hosts": [{"host": "node-1", **HOST}]})
    record = HostRecord("b", aggregates=(Aggregate("g", hosts=("node-2",)),))
    with pytest.raises(BadInput, match="did you mean node-1"):
        import_fleet(store, Fleet(HostTable.of([record]), runs=((record, [("b", "b")]),)), NOW)
    assert read(store, aggregates_table) == []


def test_an_aggregate_may_have_a_host_that_only_the_store_knows(store):
    bring(store, one_host())
    record = HostRecord("b", aggregates=(Aggregate("g", hosts=("a", "b")),))
    import_fleet(store, Fleet(HostTable.of([record]), runs=((record, [("b", "b")]),)), NOW)
    assert [host for _, host in read(store, aggregate_hosts)] == ["a", "b"]


def test_a_migration_cannot_become_an_instance(store):
    bring(store, one_host())
    write(store, consumers.insert().values(uuid=UUID % 1, kind="migration"))
    with pytest.raises(BadInput, match="migration"):
        bring(store, one_host(instances=[INSTANCE]))


def test_an_instance_cannot_become_a_migration(store):
    bring(store, one_host(instances=[INSTANCE]))
    with pytest.raises(BadInput, match=f"migration {UUID % 1}: the store knows it as an instance"):
        bring(store, one_host(migrations=[{"uuid": UUID % 1, "resources": {"VCPU": 1}}]))


def test_an_instance_of_one_host_is_no_migration_on_another(store):
    hosts = [{"host": "a", "instances": [INSTANCE]}, {"host": "b", "migrations": [{**MIGRATION, "uuid": UUID % 1}]}]
    with pytest.raises(BadInput, match=f"migration {UUID % 1} of host b: it is an instance on host a"):
        bring(store, {"hosts": hosts})


MIGRATION = {"uuid": UUID % 8, "instance": UUID % 7, "resources": {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 3}}


def test_a_migration_of_the_file_holds_what_it_says_and_no_more(store):
    bring(store, one_host(migrations=[MIGRATION]))
    assert [row[1:] for row in sorted(allocated(store))] == [("DISK_GB", 3), ("MEMORY_MB", 512), ("VCPU", 2)]
    node = one(store, compute_nodes, host="a")
    assert (node.vcpus_used, node.free_ram_mb, node.free_disk_gb, node.running_vms) == (2, 16384 - 512, 97, 1)
    assert one(store, consumers, uuid=UUID % 8).kind == "migration"
    assert read(store, servers) == []
    check_sums(store)


def test_a_migration_that_the_file_does_not_list_stays_and_is_counted(store):
    bring(store, one_host(migrations=[MIGRATION]))
    before = tables(store)
    bring(store, one_host(), LATER)
    assert tables(store) == before


def allocated(engine):
    table = allocations.c
    return read(engine, allocations, table.consumer_uuid, table.resource_class, table.used)


def test_two_imports_at_once_leave_what_one_would(store):
    """One of them may be told to try again; neither leaves a traceback or half a fleet."""
    errors = []
    begin = threading.Barrier(2)

    def work():
        begin.wait()
        try:
            bring(store, document())
        except DatabaseConflict as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(errors) <= 1
    assert bring(store, document()).hosts == ImportCounts(0, 0, 4)
    check_sums(store)
