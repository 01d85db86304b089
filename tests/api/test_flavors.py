# SPDX-License-Identifier: Apache-2.0
import uuid

import pytest
from tests.api.cloud import refusal
from tests.api.statements import statements_of

OLDEST = None
SIZES = {"ram": 512, "vcpus": 1, "disk": 1}


def created(admin, **given):
    name = given.pop("name", f"flavor {uuid.uuid4()}")
    answer = admin.post("/flavors", {"flavor": SIZES | {"name": name} | given})
    assert answer.status_code == 200, answer.text
    return answer.json()["flavor"]


def test_a_flavor_is_created_with_the_sizes_and_id_given(admin, cloud):
    own = {
        "id": "f small",
        "name": "small one",
        "ram": "2048",
        "vcpus": 2,
        "disk": 20,
        "swap": 512,
        "OS-FLV-EXT-DATA:ephemeral": 5,
        "rxtx_factor": 2.5,
        "description": "for tests",
    }
    made = created(admin, **own)
    assert made == own | {
        "ram": 2048,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": True,
        "extra_specs": {},
        "links": [
            {"rel": "self", "href": f"{cloud.address}/v2.1/flavors/f%20small"},
            {"rel": "bookmark", "href": f"{cloud.address}/flavors/f%20small"},
        ],
    }
    assert admin.get("/flavors/f small").json() == {"flavor": made}


def test_a_flavor_without_an_id_gets_a_uuid(admin):
    assert uuid.UUID(created(admin, id=None)["id"])


def test_the_version_decides_what_is_shown_of_a_flavor(admin):
    flavor = created(admin)

    def shown(version):
        return admin.get(f"/flavors/{flavor['id']}", version=version).json()["flavor"]

    assert (shown(OLDEST)["swap"], shown("compute 2.74")["swap"], shown("compute 2.75")["swap"]) == ("", "", 0)
    assert "description" not in shown("compute 2.54")
    assert shown("compute 2.55")["description"] is None
    assert "extra_specs" not in shown("compute 2.60")
    assert shown("compute 2.61")["extra_specs"] == {}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"ram": 0}, "flavor.ram"),
        ({"vcpus": "many"}, "flavor.vcpus"),
        ({"disk": -1}, "flavor.disk"),
        ({"disk": True}, "flavor.disk"),
        ({"ram": 2**31}, "flavor.ram"),
        ({"name": ""}, "flavor.name"),
        ({"name": " blank"}, "flavor.name"),
        ({"name": "x" * 256}, "flavor.name"),
        ({"id": "a/b"}, "flavor.id"),
        ({"rxtx_factor": 0}, "flavor.rxtx_factor"),
        ({"size": 1}, "flavor.size"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(admin, wrong, named):
    status, message = refusal(admin.post("/flavors", {"flavor": SIZES | {"name": "wrong"} | wrong}))
    assert (status, named in message) == (400, True), message


def test_a_description_is_refused_in_versions_without_it(admin):
    body = {"flavor": SIZES | {"name": "described", "description": "x"}}
    assert refusal(admin.post("/flavors", body, version="compute 2.54"))[0] == 400


def test_name_and_id_are_taken_once(admin):
    first = created(admin)
    same_name = {"flavor": SIZES | {"name": first["name"]}}
    assert refusal(admin.post("/flavors", same_name)) == (409, f"Flavor with name {first['name']} already exists.")
    same_id = {"flavor": SIZES | {"name": "another", "id": first["id"]}}
    assert refusal(admin.post("/flavors", same_id)) == (409, f"Flavor with ID {first['id']} already exists.")


def test_the_description_can_be_changed_since_2_55(admin):
    flavor = created(admin)
    body = {"flavor": {"description": "new"}}
    assert admin.put(f"/flavors/{flavor['id']}", body).json()["flavor"]["description"] == "new"
    assert admin.put(f"/flavors/{flavor['id']}", body, version="compute 2.54").status_code == 404
    assert admin.put("/flavors/none", body).status_code == 404
    assert admin.put(f"/flavors/{flavor['id']}", {"flavor": {"name": "other"}}).status_code == 400


def test_a_deleted_flavor_is_not_found(admin):
    flavor = created(admin)
    deleted = admin.delete(f"/flavors/{flavor['id']}")
    assert (deleted.status_code, deleted.content) == (202, b"")
    assert refusal(admin.get(f"/flavors/{flavor['id']}")) == (404, f"Flavor {flavor['id']} could not be found.")
    assert admin.delete(f"/flavors/{flavor['id']}").status_code == 404


def test_flavors_that_are_not_public_are_for_administrators_who_ask_for_them(admin, member):
    hidden = created(admin, **{"os-flavor-access:is_public": False})

    def is_listed(client, query):
        return hidden["id"] in [each["id"] for each in client.get(f"/flavors{query}").json()["flavors"]]

    assert is_listed(admin, "?is_public=None")
    assert is_listed(admin, "?is_public=false")
    assert not is_listed(admin, "")
    assert not is_listed(member, "?is_public=None")
    assert admin.get(f"/flavors/{hidden['id']}").status_code == 200
    assert member.get(f"/flavors/{hidden['id']}").status_code == 404
    assert member.get(f"/flavors/{hidden['id']}/os-extra_specs").status_code == 404
    assert refusal(admin.get("/flavors?is_public=some")) == (400, "Invalid is_public filter [some]")


def test_pages_are_linked_until_the_last_one(admin):
    sizes = {created(admin, ram=700_000 + number)["ram"] for number in range(3)}
    address, seen = "/flavors/detail?minRam=700000&limit=2&sort_key=memory_mb&sort_dir=desc", []
    while address:
        page = admin.get(address).json()
        seen += [each["ram"] for each in page["flavors"]]
        links = page.get("flavors_links", [])
        address = links[0]["href"].split("/v2.1")[1] if links else None
    assert seen == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    "wrong", ["limit=-1", "limit=x", "marker=none-such", "sort_key=price", "sort_dir=up", "minRam=x", "minDisk=-1"]
)
def test_a_wrong_query_is_refused(admin, wrong):
    assert admin.get(f"/flavors?{wrong}").status_code == 400


def test_a_list_takes_as_many_statements_as_one_flavor(admin, cloud):
    for _ in range(3):
        specs = {"extra_specs": {"quota:cpu_shares": "1"}}
        assert admin.post(f"/flavors/{created(admin)['id']}/os-extra_specs", specs).status_code == 200
    one = statements_of(cloud, lambda: admin.get("/flavors/detail?limit=1"))
    assert statements_of(cloud, lambda: admin.get("/flavors/detail")) == one


def test_only_administrators_change_flavors(admin, member):
    flavor = created(admin)
    assert member.get(f"/flavors/{flavor['id']}").status_code == 200
    denied = [
        member.post("/flavors", {"flavor": SIZES | {"name": "mine"}}),
        member.put(f"/flavors/{flavor['id']}", {"flavor": {"description": "mine"}}),
        member.delete(f"/flavors/{flavor['id']}"),
        member.post(f"/flavors/{flavor['id']}/os-extra_specs", {"extra_specs": {}}),
    ]
    assert [answer.status_code for answer in denied] == [403] * 4
