# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest


@pytest.fixture
def specs(admin):
    """The address of the extra specs of a new flavor."""
    flavor = {"name": f"with specs {uuid.uuid4()}", "ram": 512, "vcpus": 1, "disk": 0}
    made = admin.post("/flavors", {"flavor": flavor}).json()["flavor"]
    return f"/flavors/{made['id']}/os-extra_specs"


def test_specs_are_merged(admin, specs):
    assert admin.post(specs, {"extra_specs": {"a": "1", "b:c": ""}}).json() == {"extra_specs": {"a": "1", "b:c": ""}}
    assert admin.post(specs, {"extra_specs": {"a": "2"}}).status_code == 200
    assert admin.get(specs).json() == {"extra_specs": {"a": "2", "b:c": ""}}


def test_one_spec_is_set_shown_and_deleted(admin, specs):
    assert admin.put(f"{specs}/hw:cpu_policy", {"hw:cpu_policy": "shared"}).json() == {"hw:cpu_policy": "shared"}
    assert admin.get(f"{specs}/hw:cpu_policy").json() == {"hw:cpu_policy": "shared"}
    deleted = admin.delete(f"{specs}/hw:cpu_policy")
    assert (deleted.status_code, deleted.content) == (200, b"")
    for again in (admin.get, admin.delete):
        answer = again(f"{specs}/hw:cpu_policy")
        assert answer.status_code == 404
        assert "has no extra specs with key hw:cpu_policy" in answer.json()["itemNotFound"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"extra_specs": []},
        {"extra_specs": {"a": 1}},
        {"extra_specs": {"a/b": "1"}},
        {"extra_specs": {"": "1"}},
        {"extra_specs": {"a": "x" * 256}},
        {"extra_specs": {"x" * 256: "a"}},
        {"extra_specs": {}, "more": 1},
    ],
)
def test_a_wrong_body_is_refused(admin, specs, body):
    assert admin.post(specs, body).status_code == 400
    assert admin.get(specs).json() == {"extra_specs": {}}


@pytest.mark.parametrize("body", [{}, {"b": "1"}, {"a": "1", "b": "2"}, {"a": None}])
def test_the_body_for_one_spec_has_it_alone(admin, specs, body):
    assert admin.put(f"{specs}/a", body).status_code == 400


def test_a_flavor_that_does_not_exist_has_no_specs(admin):
    assert admin.get("/flavors/none/os-extra_specs").status_code == 404
    assert admin.post("/flavors/none/os-extra_specs", {"extra_specs": {"a": "1"}}).status_code == 404


def test_known_namespaces_are_checked_since_2_86(admin, specs):
    body = {"extra_specs": {"hw:cpu_policy": "sharde"}}
    assert admin.post(specs, body, version="compute 2.85").status_code == 200
    answer = admin.post(specs, body, version="compute 2.86")
    assert answer.status_code == 400
    assert "one of dedicated, shared, mixed" in answer.json()["badRequest"]["message"]
    assert admin.put(f"{specs}/hw:cpu_policy", {"hw:cpu_policy": "sharde"}).status_code == 400
