# SPDX-License-Identifier: Apache-2.0
"""Requests for servers, which schedulers of a cloud decide, for tests of what the API says about that."""

import uuid

from tests.api.cloud import wait_for

from roost.client.rpc_client import RpcClient
from roost.messages.context import RequestContext
from roost.messages.options import RpcOptions

HUGE = {"name": "huge", "vcpus": 1, "memory_mb": 10**9, "root_gb": 0}
"""A flavor that no host has room for."""


def client_of(cloud, project):
    """A client of the conductor that acts for one of the projects."""
    context = RequestContext.new(f"req-{uuid.uuid4()}", "someone", cloud.projects[project], is_admin=True)
    return RpcClient(cloud.dev.transport, RpcOptions(), context)


def create(cloud, project, flavor="small", **request):
    """Ask for a server: its id, once the decision about it is recorded."""
    name = f"own-{uuid.uuid4().hex[:8]}"
    made = client_of(cloud, project).create_servers({"name": name, "flavor": flavor, **request})
    server = made["servers"][0]["id"]
    wait_for(lambda: cloud.dev.latest_decision_about(server), "a decision")
    return server


def id_of(admin, server):
    """The id of the latest decision about a server."""
    return admin.get(f"/roost/v1/decisions?server={server}").json()["decisions"][0]["id"]
