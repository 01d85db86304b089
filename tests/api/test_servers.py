# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.api.cloud import wait_for
from tests.api.servers import new_server, refusal, running_server, shown

UNKNOWN = "2f2b1f4e-0000-4000-8000-000000000000"


@pytest.mark.parametrize("name", [UNKNOWN, "no-uuid", "%C3%A4"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/servers/{}", None),
        ("PUT", "/servers/{}", {"server": {"name": "x"}}),
        ("DELETE", "/servers/{}", None),
        ("POST", "/servers/{}/action", {"os-stop": None}),
        ("GET", "/servers/{}/metadata", None),
        ("PUT", "/servers/{}/metadata/k", {"meta": {"k": "v"}}),
    ],
)
def test_a_server_that_does_not_exist_is_not_found(member, method, path, body, name):
    assert refusal(member.request(method, path.format(name), body))[0] == 404


def test_the_server_of_another_project_is_not_found(cloud, member):
    with running_server(member) as server:
        path, other = f"/servers/{server['id']}", cloud.client("other")
        answers = [
            other.get(path),
            other.delete(path),
            other.put(path, {"server": {"name": "x"}}),
            other.post(f"{path}/action", {"os-stop": None}),
            other.get(f"{path}/metadata"),
        ]
        assert [each.status_code for each in answers] == [404] * 5
        assert shown(member, server["id"])["name"] == server["name"]


def test_a_reader_sees_a_server_and_changes_nothing(cloud, member):
    with running_server(member) as server:
        path, reader = f"/servers/{server['id']}", cloud.client("reader")
        assert reader.get(path).status_code == 200
        answers = [
            reader.put(path, {"server": {"name": "x"}}),
            reader.delete(path),
            reader.post(f"{path}/action", {"os-stop": None}),
            reader.post(f"{path}/metadata", {"metadata": {"a": "b"}}),
        ]
        assert [each.status_code for each in answers] == [403] * 4


def test_a_server_is_renamed_and_described(member):
    with running_server(member) as server:
        path = f"/servers/{server['id']}"
        found = member.put(path, {"server": {"name": "renamed", "description": "new"}}).json()["server"]
        assert (found["name"], found["description"]) == ("renamed", "new")
        assert member.put(path, {"server": {"description": None}}).json()["server"]["description"] is None
        assert shown(member, server["id"])["name"] == "renamed"


@pytest.mark.parametrize(
    ("change", "version"),
    [
        ({"name": ""}, "compute 2.100"),
        ({"name": "x" * 256}, "compute 2.100"),
        ({"name": 1}, "compute 2.100"),
        ({"flavor": "big"}, "compute 2.100"),
        ({"description": "x"}, "compute 2.18"),
    ],
)
def test_a_change_that_cannot_be_is_refused(member, change, version):
    with running_server(member) as server:
        answer = member.put(f"/servers/{server['id']}", {"server": change}, version=version)
        assert refusal(answer)[0] == 400


def test_a_server_is_deleted(member):
    path = f"/servers/{new_server(member)['id']}"
    answer = member.delete(path)
    assert (answer.status_code, answer.content) == (204, b"")
    wait_for(lambda: member.get(path).status_code == 404, "the deletion")
    assert refusal(member.delete(path))[0] == 404
