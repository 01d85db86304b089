# SPDX-License-Identifier: Apache-2.0
"""Servers for tests of the API: made by requests, and waited for."""

import uuid
from contextlib import contextmanager

from sqlalchemy import insert
from tests.api.cloud import CHEAP, PASSWORD, Client, wait_for

from roost.records.group_catalogue import NewGroup, create_group
from roost.records.sign_in import SignIn
from roost.records.users import UserStore
from roost.store.schema.access import role_assignments
from roost.store.transactions import writing

IMAGE = "7c1a5c0e-0d0e-4b52-8f0c-5b1f3f4f9d12"
FLAVOR = "small"


def wanted_server(**more):
    """The smallest body of a request for a server, with a name of its own."""
    return {"name": f"s-{uuid.uuid4().hex[:12]}", "flavorRef": FLAVOR, "networks": "none"} | more


def shown(client, server_id, **how):
    answer = client.get(f"/servers/{server_id}", **how)
    assert answer.status_code == 200, answer.text
    return answer.json()["server"]


def wait_until(client, server_id, *statuses):
    """The server once it has one of these statuses, and nothing is being done to it."""

    def found():
        server = shown(client, server_id)
        is_idle = server["OS-EXT-STS:task_state"] is None
        return server if is_idle and server["status"] in statuses else None

    return wait_for(found, f"{server_id} to be {statuses}: {shown(client, server_id)}")


def new_server(client, hints=None, **more):
    """A server that runs, or is in error."""
    body = {"server": wanted_server(**more)} | ({"os:scheduler_hints": hints} if hints else {})
    answer = client.post("/servers", body)
    assert answer.status_code == 202, answer.text
    return wait_until(client, answer.json()["server"]["id"], "ACTIVE", "ERROR")


def new_group(cloud, project, policy="affinity"):
    """The uuid of a new server group of a project."""
    wanted = NewGroup(f"g-{uuid.uuid4().hex[:12]}", policy, project_id=cloud.projects[project])
    return create_group(cloud.dev.engine, wanted, cloud.dev.clock.now()).uuid


def manager_of(cloud, project):
    """A client with the role that Keystone has between member and admin, and Roost's own users have not."""
    engine, clock, name = cloud.dev.engine, cloud.dev.clock, f"manager-{uuid.uuid4().hex[:12]}"
    user, target = UserStore(engine, clock, CHEAP).create(name, PASSWORD, {}), cloud.projects[project]
    with writing(engine) as connection:
        row = {"user_id": user.id, "target_id": target}
        connection.execute(insert(role_assignments), [row | {"role": role} for role in ("manager", "member")])
    token = SignIn(engine, clock, cost=CHEAP).with_password(name, PASSWORD, target)
    return Client(cloud.http, {"X-Auth-Token": token.secret})


@contextmanager
def running_server(client, **more):
    """A server that runs, and is deleted at the end."""
    server = new_server(client, **more)
    try:
        yield server
    finally:
        client.delete(f"/servers/{server['id']}")


def refusal(answer):
    """Status and message of an answer that refuses something."""
    (problem,) = answer.json().values()
    assert problem["code"] == answer.status_code
    return answer.status_code, problem["message"]
