# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest
from sqlalchemy import insert

from roost.store.schema.servers import servers

USED = ("totalInstancesUsed", "totalCoresUsed", "totalRAMUsed")


def limits(client, query="", **more):
    answer = client.get(f"/limits{query}", **more)
    assert answer.status_code == 200, answer.text
    found = answer.json()["limits"]
    assert found["rate"] == []
    return found["absolute"]


def test_the_use_of_a_project_is_counted_and_nothing_is_limited(cloud, admin):
    project = f"project {uuid.uuid4()}"
    row = {"name": "counted", "vm_state": "active", "project_id": project, "flavor": {"vcpus": 2, "memory_mb": 512}}
    with cloud.dev.engine.begin() as connection:
        connection.execute(insert(servers), [row | {"uuid": str(uuid.uuid4())} for _ in range(2)])
    found = limits(admin, f"?tenant_id={project}")
    assert [found[name] for name in USED] == [2, 4, 1024]
    assert {value for name, value in found.items() if name.startswith("max")} == {-1}


def test_groups_are_counted(cloud):
    other = cloud.client("other")
    before = limits(other)["totalServerGroupsUsed"]
    group = {"server_group": {"name": "counted", "policy": "affinity"}}
    assert other.post("/os-server-groups", group).status_code == 200
    assert limits(other)["totalServerGroupsUsed"] == before + 1


@pytest.mark.parametrize(
    ("name", "ends"),
    [("maxTotalFloatingIps", 36), ("maxImageMeta", 39), ("maxPersonality", 57), ("totalSecurityGroupsUsed", 36)],
)
def test_what_nova_no_longer_limits_is_shown_in_versions_that_had_it(member, name, ends):
    assert name in limits(member, version=f"compute 2.{ends - 1}")
    assert name not in limits(member, version=f"compute 2.{ends}")


def test_another_project_is_for_administrators(member, cloud):
    assert member.get(f"/limits?tenant_id={cloud.projects['theirs']}").status_code == 403
    assert limits(member, f"?tenant_id={cloud.projects['ours']}&reserved=1") == limits(member)
