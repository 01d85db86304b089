# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest
from sqlalchemy import insert
from tests.api.cloud import HOSTS, refusal
from tests.api.statements import statements_of

from roost.store.schema.servers import servers

OLDEST, NUMBERS = None, "compute 2.52"
WITH_AMOUNTS = "compute 2.87"


def listed(client, query="", **more):
    answer = client.get(f"/os-hypervisors{query}", **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["hypervisors"]


@pytest.fixture
def node(admin):
    """One of the hypervisors of the cloud, as the newest version shows it."""
    return listed(admin, "/detail?limit=1")[0]


@pytest.fixture
def server(cloud, node):
    """Uuid and name of a server that was put on the hypervisor in the database alone."""
    row = {"uuid": str(uuid.uuid4()), "name": "hosted", "vm_state": "active", "project_id": "p"}
    row |= {"host": node["service"]["host"], "node": node["hypervisor_hostname"]}
    with cloud.dev.engine.begin() as connection:
        connection.execute(insert(servers).values(row))
    yield {"uuid": row["uuid"], "name": "hosted"}
    with cloud.dev.engine.begin() as connection:
        connection.execute(servers.delete().where(servers.c.uuid == row["uuid"]))


def test_all_hypervisors_are_listed_with_their_state(admin):
    found = listed(admin)
    assert len(found) == HOSTS
    assert [set(each) for each in found] == [{"id", "hypervisor_hostname", "state", "status"}] * HOSTS
    assert {each["state"] for each in found} <= {"up", "down"}
    assert {each["status"] for each in found} <= {"enabled", "disabled"}


def test_the_newest_version_shows_no_amounts(admin, node):
    assert admin.get(f"/os-hypervisors/{node['id']}").json() == {"hypervisor": node}
    assert uuid.UUID(node["id"])
    assert uuid.UUID(node["service"]["id"])
    assert node["uptime"] is None
    assert set(node) == {
        *("id", "hypervisor_hostname", "state", "status", "hypervisor_type", "hypervisor_version", "host_ip"),
        *("service", "uptime"),
    }


def test_older_versions_show_amounts_and_numbers(admin, node):
    whole = admin.get(f"/os-hypervisors/{node['id']}", version=WITH_AMOUNTS).json()["hypervisor"]
    assert whole["memory_mb"] == whole["memory_mb_used"] + whole["free_ram_mb"] > 0
    assert whole["vcpus"] > 0
    assert isinstance(whole["cpu_info"], dict)
    assert "uptime" not in whole
    (same,) = [
        each
        for each in listed(admin, "/detail", version=OLDEST)
        if each["service"]["host"] == node["service"]["host"]
    ]
    assert isinstance(same["id"], int)
    assert isinstance(same["service"]["id"], int)
    assert isinstance(same["cpu_info"], str)
    assert admin.get(f"/os-hypervisors/{same['id']}", version=OLDEST).json()["hypervisor"] == same


def test_an_id_is_a_uuid_since_2_53(admin, node):
    assert refusal(admin.get("/os-hypervisors/host1")) == (400, "Invalid uuid host1")
    unknown = uuid.uuid4()
    problem = f"Hypervisor with ID '{unknown}' could not be found."
    assert refusal(admin.get(f"/os-hypervisors/{unknown}")) == (404, problem)
    for other in (node["id"], "999999", "9" * 30, "\u0661"):
        assert admin.get(f"/os-hypervisors/{other}", version=NUMBERS).status_code == 404


@pytest.mark.parametrize("version", ["compute 2.33", NUMBERS, "compute 2.100"])
def test_pages_are_linked_until_the_last_one(admin, version):
    address, seen = "/os-hypervisors?limit=4", []
    while address:
        page = admin.get(address, version=version).json()
        seen += [each["id"] for each in page["hypervisors"]]
        links = page.get("hypervisors_links", [])
        address = links[0]["href"].split("/v2.1")[1] if links else None
    assert seen == [each["id"] for each in listed(admin, version=version)]


def test_versions_before_2_33_have_no_pages(admin):
    assert len(listed(admin, "?limit=1", version="compute 2.32")) == HOSTS


def test_hypervisors_are_found_by_a_part_of_their_name(admin, node):
    name = node["hypervisor_hostname"]
    found = listed(admin, f"?hypervisor_hostname_pattern={name}")
    assert node["id"] in [each["id"] for each in found]
    assert all(name in each["hypervisor_hostname"] for each in found)
    assert refusal(admin.get("/os-hypervisors?hypervisor_hostname_pattern=%25")) == (
        404,
        "No hypervisor matching '%' could be found.",
    )
    assert admin.get(f"/os-hypervisors?hypervisor_hostname_pattern={name}&limit=1").status_code == 400
    old = admin.get(f"/os-hypervisors/{name}/search", version=NUMBERS).json()["hypervisors"]
    assert [each["hypervisor_hostname"] for each in old] == [each["hypervisor_hostname"] for each in found]
    assert admin.get("/os-hypervisors/none-such/search", version=NUMBERS).status_code == 404
    assert admin.get(f"/os-hypervisors/{name}/search").status_code == 404


def test_servers_are_shown_where_they_are_asked_for(admin, node, server):
    address = f"/os-hypervisors/{node['id']}"
    assert server in admin.get(f"{address}?with_servers=true").json()["hypervisor"]["servers"]
    assert "servers" not in admin.get(address).json()["hypervisor"]
    assert all("servers" in each for each in listed(admin, "/detail?with_servers=true"))
    assert all(
        each["servers"] for each in listed(admin, "?with_servers=1", version="compute 2.74") if "servers" in each
    )
    name = node["hypervisor_hostname"]
    old = admin.get(f"/os-hypervisors/{name}/servers", version=NUMBERS).json()["hypervisors"]
    assert server in next(each["servers"] for each in old if each["hypervisor_hostname"] == name)


def test_statistics_are_sums_over_enabled_hosts_and_end_with_2_87(admin):
    sums = admin.get("/os-hypervisors/statistics", version=OLDEST).json()["hypervisor_statistics"]
    nodes = [each for each in listed(admin, "/detail", version=OLDEST) if each["status"] == "enabled"]
    assert sums["count"] == len(nodes) > 0
    assert {name: sum(each[name] for each in nodes) for name in ("vcpus", "memory_mb", "free_disk_gb")}.items() <= (
        sums.items()
    )
    assert admin.get("/os-hypervisors/statistics", version=WITH_AMOUNTS).status_code == 200
    assert admin.get("/os-hypervisors/statistics", version="compute 2.88").status_code == 404


def test_the_uptime_is_not_known_and_ends_with_2_87(admin, node):
    address = f"/os-hypervisors/{node['id']}/uptime"
    shown = admin.get(address, version=WITH_AMOUNTS).json()["hypervisor"]
    assert (shown["id"], shown["uptime"]) == (node["id"], None)
    assert admin.get(address).status_code == 404


@pytest.mark.parametrize("wrong", ["limit=-1", "limit=x", "marker=none-such", "with_servers=perhaps"])
def test_a_wrong_query_is_refused(admin, wrong):
    assert admin.get(f"/os-hypervisors?{wrong}").status_code == 400


@pytest.mark.parametrize("marker", ["x", str(2**63), "9" * 60, "\u0661"])
def test_a_marker_before_2_53_is_a_number(admin, marker):
    assert admin.get(f"/os-hypervisors?marker={marker}", version=NUMBERS).status_code == 400


def test_hypervisors_are_for_administrators(member, node):
    for path in ("", "/detail", f"/{node['id']}"):
        assert member.get(f"/os-hypervisors{path}").status_code == 403


@pytest.mark.parametrize("query", ["/detail?", "/detail?with_servers=true&"])
def test_a_list_takes_as_many_statements_as_one_hypervisor(admin, cloud, query):
    one = statements_of(cloud, lambda: listed(admin, f"{query}limit=1"))
    assert statements_of(cloud, lambda: listed(admin, query)) == one
