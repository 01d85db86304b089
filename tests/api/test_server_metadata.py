# SPDX-License-Identifier: Apache-2.0
import jsonschema
import pytest
from tests.api.servers import refusal, running_server

from roost.api.compute.server_bodies import MetadataBody


@pytest.fixture(scope="module")
def path(cloud):
    """The path of the metadata of a server."""
    with running_server(cloud.client("member"), metadata={"role": "web"}) as server:
        yield f"/servers/{server['id']}/metadata"


def test_entries_are_set_one_by_one_and_together(member, path):
    member.put(path, {"metadata": {"role": "web"}})
    assert member.post(path, {"metadata": {"a": "1"}}).json() == {"metadata": {"role": "web", "a": "1"}}
    assert member.put(f"{path}/a", {"meta": {"a": "2"}}).json() == {"meta": {"a": "2"}}
    assert member.get(f"{path}/a").json() == {"meta": {"a": "2"}}
    assert member.delete(f"{path}/a").status_code == 204
    assert member.put(path, {"metadata": {"b": ""}}).json() == {"metadata": {"b": ""}}
    assert member.get(path).json() == {"metadata": {"b": ""}}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_entry_that_does_not_exist_is_not_found(member, path, method):
    assert refusal(member.request(method, f"{path}/nothing")) == (404, "Metadata item was not found")


@pytest.mark.parametrize(
    ("method", "key", "body"),
    [
        ("PUT", "/a", {"meta": {"b": "1"}}),
        ("PUT", "/a", {"meta": {"a": "1", "b": "1"}}),
        ("PUT", "/a", {"meta": {}}),
        ("POST", "", {"metadata": {"a": 1}}),
        ("POST", "", {"metadata": {"a": "x" * 256}}),
        ("POST", "", {"metadata": {"": "x"}}),
        ("POST", "", {"metadata": {"a/b": "x"}}),
        ("POST", "", {"metadata": {str(number): "" for number in range(129)}}),
        ("PUT", "", {"meta": {}}),
    ],
)
def test_entries_that_cannot_be_are_refused(member, path, method, key, body):
    assert refusal(member.request(method, f"{path}{key}", body))[0] == 400


def test_the_published_schema_allows_no_other_keys():
    schema = MetadataBody.model_json_schema()
    jsonschema.validate({"metadata": {"role": "web"}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"metadata": {"a/b": "web"}}, schema)
