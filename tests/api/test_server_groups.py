# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest
from tests.api.cloud import refusal
from tests.api.statements import statements_of

from roost.records.group_catalogue import NewGroup, create_group
from roost.records.users import ProjectStore, UserStore

WITH_POLICIES = "compute 2.63"


def created(client, version="compute 2.64", **given):
    body = {"server_group": given if version == WITH_POLICIES else {"name": "web", "policy": "affinity"} | given}
    answer = client.post("/os-server-groups", body, version=version)
    assert answer.status_code == 200, answer.text
    return answer.json()["server_group"]


def listed(client, query="", **more):
    answer = client.get(f"/os-server-groups{query}", **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["server_groups"]


def test_a_group_has_a_policy_with_rules_since_2_64(member, cloud):
    made = created(member, name="spread", policy="anti-affinity", rules={"max_server_per_host": "3"})
    assert made == {
        "id": str(uuid.UUID(made["id"])),
        "name": "spread",
        "policy": "anti-affinity",
        "rules": {"max_server_per_host": 3},
        "members": [],
        "project_id": cloud.projects["ours"],
        "user_id": made["user_id"],
    }
    assert made["user_id"]
    assert member.get(f"/os-server-groups/{made['id']}").json() == {"server_group": made}


def test_a_group_has_a_list_of_one_policy_before_2_64(member):
    made = created(member, WITH_POLICIES, name="near", policies=["soft-affinity"])
    assert (made["policies"], made["metadata"]) == (["soft-affinity"], {})
    assert not {"policy", "rules"} & set(made)
    old = member.get(f"/os-server-groups/{made['id']}", version="compute 2.12").json()["server_group"]
    assert set(old) == {"id", "name", "policies", "metadata", "members"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "x"},
        {"name": "", "policy": "affinity"},
        {"name": "x", "policy": "near"},
        {"name": "x", "policy": None},
        {"name": "x", "policies": ["affinity"]},
        {"name": "x", "policy": "affinity", "policies": ["affinity"]},
        {"name": "x", "policy": "affinity", "rules": {"max_server_per_host": 2}},
        {"name": "x", "policy": "anti-affinity", "rules": {"max_server_per_host": 0}},
        {"name": "x", "policy": "anti-affinity", "rules": {"max_server_per_host": "many"}},
        {"name": "x", "policy": "anti-affinity", "rules": {"least": 1}},
        {"policy": "affinity"},
    ],
)
def test_a_wrong_group_is_refused(member, wrong):
    assert member.post("/os-server-groups", {"server_group": wrong}).status_code == 400


@pytest.mark.parametrize(
    ("version", "wrong"),
    [
        (WITH_POLICIES, {"policy": "affinity"}),
        (WITH_POLICIES, {"policies": []}),
        (WITH_POLICIES, {"policies": ["affinity", "anti-affinity"]}),
        (WITH_POLICIES, {"policies": ["affinity"], "rules": {}}),
        ("compute 2.14", {"policies": ["soft-affinity"]}),
    ],
)
def test_a_group_of_another_version_is_refused(member, version, wrong):
    body = {"server_group": {"name": "x"} | wrong}
    assert member.post("/os-server-groups", body, version=version).status_code == 400


def test_a_project_sees_its_own_groups_alone(admin, member, cloud):
    other, reader = cloud.client("other"), cloud.client("reader")
    address = f"/os-server-groups/{created(member)['id']}"
    assert member.get(address).json()["server_group"] in listed(member)
    assert reader.get(address).status_code == 200
    assert other.get(address).status_code == other.delete(address).status_code == 404
    assert reader.delete(address).status_code == reader.post("/os-server-groups", {}).status_code == 403
    assert admin.get(address).status_code == 200
    group = member.get(address).json()["server_group"]
    assert group not in listed(admin)
    assert group in listed(admin, "?all_projects=True")
    assert member.get("/os-server-groups?all_projects=True").status_code == 403


def test_a_deleted_group_is_not_found(member):
    address = f"/os-server-groups/{created(member)['id']}"
    deleted = member.delete(address)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert refusal(member.get(address))[0] == member.delete(address).status_code == 404
    assert member.get("/os-server-groups/name").status_code == 404


def test_pages_have_limit_and_offset(member):
    for _ in range(3):
        created(member)
    everything = listed(member)
    assert listed(member, "?limit=2&offset=1") == everything[1:3]
    for wrong in ("limit=-1", "offset=-1", "limit=x", f"offset={10**20}"):
        assert member.get(f"/os-server-groups?{wrong}").status_code == 400


def test_a_list_takes_as_many_statements_as_one_group(member, cloud):
    for _ in range(3):
        created(member)
    one = statements_of(cloud, lambda: listed(member, "?limit=1"))
    assert statements_of(cloud, lambda: listed(member)) == one


def test_a_group_without_an_owner_has_empty_texts_for_it(admin, cloud):
    """D32: project and user of a group were null where it was imported, which the API has no place for."""
    made = create_group(cloud.dev.engine, NewGroup("imported", "affinity"), cloud.dev.clock.now()).uuid
    shown = admin.get(f"/os-server-groups/{made}").json()["server_group"]
    assert (shown["project_id"], shown["user_id"]) == ("", "")
    assert admin.delete(f"/os-server-groups/{made}").status_code == 204


def test_the_group_of_a_development_cloud_belongs_to_its_administrator(admin, cloud):
    """D32."""
    (apart,) = (each for each in listed(admin, "?all_projects=1") if each["name"] == "apart")
    user, project = UserStore(cloud.dev.engine, cloud.dev.clock), ProjectStore(cloud.dev.engine, cloud.dev.clock)
    assert (apart["project_id"], apart["user_id"]) == (project.find("admin").id, user.find("admin").id)
