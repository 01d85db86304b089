# SPDX-License-Identifier: Apache-2.0
"""Requests generated from the published OpenAPI document, and what must be true of every answer.

`tests/api/test_schema.py` makes a few for each operation, `make fuzz` as many as ten minutes allow.
"""

import uuid

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
USERS = ("admin", "member", "system_reader")
VERSIONS = ("2.1", "2.30", "2.56", "2.88", "2.100")


def operations(cloud):
    """All operations of the document, by their ids, without streams: they have no end."""
    document = cloud.http.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=cloud.address)
    found = [each.ok() for each in schema.get_all_operations()]
    return {each.definition.raw["operationId"]: each for each in found if not _is_stream(each)}


def _is_stream(operation):
    return any(
        "text/event-stream" in each.get("content", {}) for each in operation.definition.raw["responses"].values()
    )


def known_values(cloud):
    """Path parameter -> the key of something that exists, so that generated requests get beyond 404.

    What an earlier request may have deleted is made again, under a new name.
    """
    admin, name = cloud.client("admin"), f"known-{uuid.uuid4()}"
    node = _first(admin.get("/os-hypervisors").json()["hypervisors"])
    service = _first(admin.get("/os-services?binary=nova-compute").json()["services"])
    flavor = {"name": name, "id": name, "vcpus": 1, "ram": 64, "disk": 0}
    assert admin.post("/flavors", {"flavor": flavor}).status_code == 200
    made = admin.post("/servers", {"server": {"name": name, "flavorRef": name, "networks": "none"}}).json()
    group = admin.post("/os-server-groups", {"server_group": {"name": name, "policy": "affinity"}}).json()
    return {
        "flavor_id": name,
        "hypervisor": node.get("id", name),
        "pattern": node.get("hypervisor_hostname", name),
        "service": service.get("id", name),
        "server_id": made["server"]["id"],
        "group_id": group["server_group"]["id"],
        "aggregate_id": str(admin.post("/os-aggregates", {"aggregate": {"name": name}}).json()["aggregate"]["id"]),
        "image_id": admin.post("/image/v2/images", {"name": name}).json()["id"],
        "decision": made["server"]["id"],
        "host": service.get("host", name),
    }


def _first(found):
    return found[0] if found else {}


def try_operation(cloud, operation, known, count, start):
    """Send `count` generated requests of an operation; raises the failures of the first answer that is not right.

    `start`: the seed, by which a run can be repeated.
    """

    @seed(start)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(),
        knows=st.booleans(),
        user=st.sampled_from(USERS),
        version=st.sampled_from(VERSIONS),
    )
    def try_one(case, knows, user, version):
        if knows:
            case.path_parameters = {**case.path_parameters, **{
                name: known[name] for name in case.path_parameters if name in known
            }}  # fmt: skip
        headers = {"X-Auth-Token": cloud.tokens[user], "OpenStack-API-Version": f"compute {version}"}
        response = case.call(headers=headers, timeout=30)
        case.validate_response(response, checks=CHECKS)

    try_one()


__all__ = ["FailureGroup", "known_values", "operations", "try_operation"]
