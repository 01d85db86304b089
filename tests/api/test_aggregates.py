# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest
from tests.api.cloud import refusal
from tests.api.statements import statements_of

from roost.records.services import save_service_heartbeat


@pytest.fixture
def host(cloud):
    """A host of which only the service exists: nothing else depends on its zone."""
    name = f"host-{uuid.uuid4()}"
    save_service_heartbeat(cloud.dev.engine, name, "nova-compute", "compute", cloud.dev.clock.now())
    return name


def created(admin, **given):
    answer = admin.post("/os-aggregates", {"aggregate": {"name": f"aggregate {uuid.uuid4()}"} | given})
    assert answer.status_code == 200, answer.text
    return answer.json()["aggregate"]


def act(client, aggregate, **action):
    return client.post(f"/os-aggregates/{aggregate['id']}/action", action)


def test_an_aggregate_is_created_without_hosts_and_shown_with_them(admin):
    made = created(admin, name="ssd hosts", availability_zone="z-created")
    assert made == {
        "id": made["id"],
        "uuid": str(uuid.UUID(made["uuid"])),
        "name": "ssd hosts",
        "availability_zone": "z-created",
        "created_at": made["created_at"],
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }
    whole = made | {"hosts": [], "metadata": {"availability_zone": "z-created"}}
    assert admin.get(f"/os-aggregates/{made['id']}").json() == {"aggregate": whole}
    assert whole in admin.get("/os-aggregates").json()["aggregates"]
    assert "uuid" not in admin.get(f"/os-aggregates/{made['id']}", version="compute 2.40").json()["aggregate"]


def test_a_host_is_added_once_and_removed(admin, host):
    aggregate = created(admin)
    assert act(admin, aggregate, add_host={"host": host}).json()["aggregate"]["hosts"] == [host]
    problem = f"Aggregate {aggregate['id']} already has host {host}."
    assert refusal(act(admin, aggregate, add_host={"host": host})) == (409, problem)
    assert refusal(admin.delete(f"/os-aggregates/{aggregate['id']}"))[0] == 400
    assert act(admin, aggregate, remove_host={"host": host}).json()["aggregate"]["hosts"] == []
    assert act(admin, aggregate, remove_host={"host": host}).status_code == 404
    assert refusal(act(admin, aggregate, add_host={"host": "none"})) == (404, "Compute host none could not be found.")


def test_a_host_is_in_one_zone(admin, host):
    first, second = created(admin, availability_zone="z1"), created(admin, availability_zone="z2")
    assert act(admin, first, add_host={"host": host}).status_code == 200
    status, message = refusal(act(admin, second, add_host={"host": host}))
    assert (status, "already in availability zone(s) ['z1', 'z2']" in message) == (409, True)
    plain = created(admin)
    assert act(admin, plain, add_host={"host": host}).status_code == 200
    other_zone = {"aggregate": {"availability_zone": "z3"}}
    assert admin.put(f"/os-aggregates/{plain['id']}", other_zone).status_code == 400


def test_name_and_zone_can_be_changed(admin):
    aggregate = created(admin, availability_zone="z-before")

    def changed(**changes):
        return admin.put(f"/os-aggregates/{aggregate['id']}", {"aggregate": changes}).json()["aggregate"]

    renamed = changed(name="renamed")
    assert (renamed["name"], renamed["availability_zone"]) == ("renamed", "z-before")
    assert renamed["updated_at"] >= renamed["created_at"]
    assert changed(availability_zone="z-after")["metadata"] == {"availability_zone": "z-after"}
    assert changed(availability_zone=None)["metadata"] == {}


def test_metadata_is_set_and_with_null_deleted(admin):
    aggregate = created(admin)
    assert act(admin, aggregate, set_metadata={"metadata": {"ssd": "true", "gpu": "x"}}).status_code == 200
    changed = act(admin, aggregate, set_metadata={"metadata": {"ssd": None, "none": None}})
    assert changed.json()["aggregate"]["metadata"] == {"gpu": "x"}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"add_host": None},
        {"add_host": {"host": ""}},
        {"add_host": {"host": "a b"}},
        {"add_host": {"host": "a"}, "remove_host": {"host": "a"}},
        {"set_metadata": {"metadata": {"a": 1}}},
        {"set_metadata": {"metadata": {"a": "x" * 256}}},
        {"drop": {}},
    ],
)
def test_a_wrong_action_is_refused(admin, wrong):
    assert act(admin, created(admin), **wrong).status_code == 400


@pytest.mark.parametrize(
    "wrong",
    [{}, {"name": ""}, {"name": None}, {"name": "x" * 256}, {"name": "a", "id": 1}, {"availability_zone": "a:b"}],
)
def test_a_wrong_aggregate_is_refused(admin, wrong):
    assert admin.put(f"/os-aggregates/{created(admin)['id']}", {"aggregate": wrong}).status_code == 400
    assert admin.post("/os-aggregates", {"aggregate": {"availability_zone": "z"} | wrong}).status_code == 400


def test_a_name_is_taken_once(admin):
    taken, other = created(admin), created(admin)
    assert admin.post("/os-aggregates", {"aggregate": {"name": taken["name"]}}).status_code == 409
    assert admin.put(f"/os-aggregates/{other['id']}", {"aggregate": {"name": taken["name"]}}).status_code == 409


def test_an_aggregate_that_does_not_exist_is_not_found(admin):
    gone = created(admin)
    deleted = admin.delete(f"/os-aggregates/{gone['id']}")
    assert (deleted.status_code, deleted.content) == (200, b"")
    for number in (gone["id"], -1, 10**30):
        address = f"/os-aggregates/{number}"
        assert refusal(admin.get(address)) == (404, f"Aggregate {number} could not be found.")
        assert admin.put(address, {"aggregate": {"name": "x"}}).status_code == 404
        assert admin.delete(address).status_code == 404
        assert admin.post(f"{address}/action", {"add_host": {"host": "h"}}).status_code == 404
    assert admin.get("/os-aggregates/name").status_code == 400


def test_aggregates_are_for_administrators(admin, member):
    aggregate = created(admin)
    denied = [
        member.get("/os-aggregates"),
        member.get(f"/os-aggregates/{aggregate['id']}"),
        member.post("/os-aggregates", {"aggregate": {"name": "mine"}}),
        member.delete(f"/os-aggregates/{aggregate['id']}"),
        act(member, aggregate, set_metadata={"metadata": {}}),
        act(member, aggregate),
    ]
    assert [answer.status_code for answer in denied] == [403] * 6


def test_a_list_takes_as_many_statements_with_more_aggregates(admin, cloud, host):
    before = statements_of(cloud, lambda: admin.get("/os-aggregates"))
    for _ in range(3):
        act(admin, created(admin, availability_zone="z-many"), add_host={"host": host})
    assert statements_of(cloud, lambda: admin.get("/os-aggregates")) == before
