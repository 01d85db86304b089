# SPDX-License-Identifier: Apache-2.0
from urllib.parse import parse_qsl, urlsplit

import pytest
from tests.api.servers import manager_of, refusal, running_server, wait_until
from tests.api.statements import statements_of

from roost.records.server import Migration
from roost.store.transactions import writing

UNKNOWN = "2f2b1f4e-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def moved(cloud):
    """A server of the project `ours` after two live migrations."""
    admin = cloud.client("admin")
    with running_server(cloud.client("member"), availability_zone="zone-a") as server:
        path = f"/servers/{server['id']}/action"
        for _ in range(2):
            assert admin.post(path, {"os-migrateLive": {"host": None, "block_migration": "auto"}}).status_code == 202
            wait_until(admin, server["id"], "ACTIVE")
        yield server["id"]


def listed(client, version="compute 2.100", **query):
    answer = client.get("/os-migrations", params=query, version=version)
    assert answer.status_code == 200, answer.text
    return answer.json()["migrations"]


def test_administrators_see_all_of_a_migration(admin, cloud, moved):
    latest, first = listed(admin, instance_uuid=moved)
    assert latest["id"] > first["id"]
    assert (latest["migration_type"], latest["status"]) == ("live-migration", "completed")
    assert (latest["source_compute"], first["dest_compute"]) == (first["dest_compute"], latest["source_compute"])
    assert (latest["project_id"], latest["instance_uuid"]) == (cloud.projects["ours"], moved)
    assert "links" not in latest


@pytest.mark.parametrize(
    ("key", "since"), [("migration_type", 23), ("uuid", 59), ("user_id", 80), ("project_id", 80)]
)
def test_a_key_is_there_from_its_version_on(admin, moved, key, since):
    assert key in listed(admin, f"compute 2.{since}", instance_uuid=moved)[0]
    assert key not in listed(admin, f"compute 2.{since - 1}", instance_uuid=moved)[0]


def test_filters(admin, cloud, moved):
    def count(**query):
        return len(listed(admin, instance_uuid=moved, **query))

    host = listed(admin, instance_uuid=moved)[0]["source_compute"]
    assert (count(status="completed"), count(status="error")) == (2, 0)
    assert (count(migration_type="live-migration"), count(migration_type="resize")) == (2, 0)
    assert (count(host=host), count(source_compute=host), count(host="nowhere")) == (2, 1, 0)
    assert (count(project_id=cloud.projects["ours"]), count(project_id=cloud.projects["theirs"])) == (2, 0)
    assert (count(**{"changes-since": "2020-01-01"}), count(**{"changes-before": "2020-01-01"})) == (2, 0)


def test_pages_follow_one_another(admin, moved):
    page = admin.get("/os-migrations", params={"instance_uuid": moved, "limit": 1}).json()
    (link,) = page["migrations_links"]
    (last,) = listed(admin, **dict(parse_qsl(urlsplit(link["href"]).query)))
    assert last["id"] < page["migrations"][0]["id"]


def test_the_number_of_statements_does_not_grow_with_the_migrations(admin, cloud, moved):
    def counted(limit):
        return statements_of(cloud, lambda: listed(admin, instance_uuid=moved, limit=limit))

    assert counted(2) == counted(1)


@pytest.mark.parametrize("query", ["limit=-1", f"marker={UNKNOWN}", "changes-since=x", "color=red"])
def test_a_query_that_cannot_be_is_refused(admin, query):
    assert refusal(admin.get(f"/os-migrations?{query}"))[0] == 400


def test_a_key_is_refused_before_its_version(admin):
    assert refusal(admin.get("/os-migrations?changes-before=2020-01-01", version="compute 2.65"))[0] == 400
    assert admin.get("/os-migrations?limit=x1", version="compute 2.58").status_code == 400


def test_members_see_no_migrations(member, moved):
    assert refusal(member.get("/os-migrations"))[0] == 403
    assert refusal(member.get(f"/servers/{moved}/migrations"))[0] == 403


def test_managers_see_those_of_their_project_without_hosts(cloud, moved):
    found = listed(manager_of(cloud, "ours"), instance_uuid=moved)
    assert (len(found), found[0]["source_compute"], found[0]["dest_compute"]) == (2, None, None)
    assert listed(manager_of(cloud, "theirs"), instance_uuid=moved) == []
    assert refusal(manager_of(cloud, "ours").get("/os-migrations?host=a-01"))[0] == 403


def test_migrations_that_have_ended_are_not_under_way(admin, moved):
    assert admin.get(f"/servers/{moved}/migrations").json() == {"migrations": []}
    number = listed(admin, instance_uuid=moved)[0]["id"]
    assert refusal(admin.get(f"/servers/{moved}/migrations/{number}"))[0] == 404
    assert refusal(admin.get(f"/servers/{moved}/migrations", version="compute 2.22"))[0] == 404
    assert refusal(admin.get(f"/servers/{UNKNOWN}/migrations"))[0] == 404
    assert refusal(admin.get(f"/servers/{moved}/migrations/x"))[0] == 400


def test_a_live_migration_that_is_under_way_is_shown(admin, cloud, moved):
    move = put_under_way(cloud, moved)
    (found,) = [each for each in listed(admin, instance_uuid=moved) if each["uuid"] == move]
    path = f"{cloud.address}/v2.1/servers/{moved}/migrations/{found['id']}"
    assert found["links"][0] == {"rel": "self", "href": path}
    (running,) = admin.get(f"/servers/{moved}/migrations").json()["migrations"]
    assert (running["uuid"], running["server_uuid"], running["status"]) == (move, moved, "running")
    assert running["memory_total_bytes"] is None
    assert admin.get(f"/servers/{moved}/migrations/{found['id']}").json() == {"migration": running}
    end(cloud, move)


def put_under_way(cloud, server_uuid):
    """The uuid of a record of a live migration that no host knows of."""
    record = Migration(UNKNOWN, server_uuid, "live-migration", "running", "a-01", "a-01", "a-02", "a-02")
    write(cloud, cloud.dev.api.parts.servers.create_migration(record))
    return UNKNOWN


def end(cloud, move):
    write(cloud, cloud.dev.api.parts.servers.update_migration(move, status="completed"))


def write(cloud, change):
    with writing(cloud.dev.engine) as connection:
        change(connection)
