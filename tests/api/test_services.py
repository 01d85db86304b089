# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest
from sqlalchemy import insert
from tests.api.cloud import refusal
from tests.api.statements import statements_of

from roost.records.services import save_service_heartbeat
from roost.store.schema.servers import servers

NAMED = "compute 2.52"


@pytest.fixture
def host(cloud):
    """A host of which only the service exists, up a moment ago."""
    name = f"host-{uuid.uuid4()}"
    save_service_heartbeat(cloud.dev.engine, name, "nova-compute", "compute", cloud.dev.clock.now())
    return name


def service_on(admin, host, **more):
    (found,) = admin.get(f"/os-services?host={host}&binary=nova-compute", **more).json()["services"]
    return found


def test_a_service_is_shown_with_its_state(admin, host):
    found = service_on(admin, host)
    assert found == {
        "id": str(uuid.UUID(found["id"])),
        "binary": "nova-compute",
        "host": host,
        "zone": "nova",
        "status": "enabled",
        "state": "up",
        "updated_at": found["updated_at"],
        "disabled_reason": None,
        "forced_down": False,
    }
    old = service_on(admin, host, version="compute 2.10")
    assert isinstance(old["id"], int)
    assert "forced_down" not in old


def test_apis_are_not_listed(admin):
    binaries = {each["binary"]: each["zone"] for each in admin.get("/os-services").json()["services"]}
    assert binaries["nova-scheduler"] == binaries["nova-conductor"] == "internal"
    assert "nova-osapi_compute" not in binaries
    assert admin.get("/os-services?binary=nova-osapi_compute").json() == {"services": []}


def test_a_service_is_disabled_with_a_reason_forced_down_and_enabled(admin, host):
    address = f"/os-services/{service_on(admin, host)['id']}"

    def changed(**changes):
        answer = admin.put(address, changes)
        assert answer.status_code == 200, answer.text
        service = answer.json()["service"]
        assert service == service_on(admin, host)
        return service["status"], service["disabled_reason"], service["state"], service["forced_down"]

    assert changed(status="disabled", disabled_reason="memory") == ("disabled", "memory", "up", False)
    assert changed(forced_down=True) == ("disabled", "memory", "down", True)
    assert changed(status="enabled", forced_down=False) == ("enabled", None, "up", False)


def test_before_2_53_host_and_binary_name_a_service(admin, host):
    named = {"host": host, "binary": "nova-compute"}

    def changed(action, **more):
        answer = admin.put(f"/os-services/{action}", named | more, version=NAMED)
        assert answer.status_code == 200, answer.text
        return answer.json()["service"]

    assert changed("disable") == named | {"status": "disabled"}
    reason = {"disabled_reason": "memory"}
    assert changed("disable-log-reason", **reason) == named | {"status": "disabled"} | reason
    assert changed("force-down", forced_down=True) == named | {"forced_down": True}
    assert (service_on(admin, host)["disabled_reason"], service_on(admin, host)["state"]) == ("memory", "down")
    assert changed("enable") == named | {"status": "enabled"}
    assert service_on(admin, host)["status"] == "enabled"
    assert admin.put("/os-services/enable", named).status_code == 404
    assert admin.put("/os-services/force-down", named, version="compute 2.10").status_code == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"status": "off"},
        {"status": None},
        {"disabled_reason": "memory"},
        {"status": "enabled", "disabled_reason": "memory"},
        {"status": "disabled", "disabled_reason": ""},
        {"status": "disabled", "disabled_reason": "x" * 256},
        {"forced_down": "perhaps"},
        {"status": "disabled", "host": "h"},
    ],
)
def test_a_wrong_change_is_refused(admin, host, wrong):
    before = service_on(admin, host)
    assert admin.put(f"/os-services/{before['id']}", wrong).status_code == 400
    assert service_on(admin, host) == before


def test_only_agents_can_be_changed(admin):
    (scheduler, *_) = admin.get("/os-services?binary=nova-scheduler").json()["services"]
    problem = "Updating a nova-scheduler service is not supported. Only nova-compute services can be updated."
    assert refusal(admin.put(f"/os-services/{scheduler['id']}", {"status": "disabled"})) == (400, problem)
    named = {"host": scheduler["host"], "binary": "nova-scheduler"}
    assert refusal(admin.put("/os-services/disable", named, version=NAMED)) == (400, problem)


def test_a_service_that_does_not_exist_is_not_found(admin):
    unknown = f"/os-services/{uuid.uuid4()}"
    assert admin.put(unknown, {"status": "enabled"}).status_code == 404
    assert admin.delete(unknown).status_code == 404
    assert admin.delete("/os-services/1").status_code == 400
    assert admin.delete("/os-services/name", version=NAMED).status_code == 400
    assert admin.delete(f"/os-services/{'9' * 19}", version=NAMED).status_code == 404
    named = {"host": "none", "binary": "nova-compute"}
    assert admin.put("/os-services/enable", named, version=NAMED).status_code == 404


def test_a_service_is_deleted_unless_servers_are_there(admin, cloud, host):
    row = {"uuid": str(uuid.uuid4()), "name": "hosted", "vm_state": "active", "host": host, "node": host}
    with cloud.dev.engine.begin() as connection:
        connection.execute(insert(servers).values(row))
    address = f"/os-services/{service_on(admin, host)['id']}"
    assert admin.delete(address).status_code == 409
    with cloud.dev.engine.begin() as connection:
        connection.execute(servers.delete().where(servers.c.uuid == row["uuid"]))
    deleted = admin.delete(address)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert admin.get(f"/os-services?host={host}").json() == {"services": []}


def test_services_are_for_administrators(admin, member, host):
    address = f"/os-services/{service_on(admin, host)['id']}"
    denied = [member.get("/os-services"), member.put(address, {"status": "disabled"}), member.delete(address)]
    assert [answer.status_code for answer in denied] == [403] * 3


def test_a_list_takes_as_many_statements_with_more_services(admin, cloud, host):
    before = statements_of(cloud, lambda: admin.get("/os-services"))
    for number in range(3):
        save_service_heartbeat(cloud.dev.engine, f"{host}.{number}", "nova-compute", "compute", cloud.dev.clock.now())
    assert statements_of(cloud, lambda: admin.get("/os-services")) == before
