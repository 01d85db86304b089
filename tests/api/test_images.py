# SPDX-License-Identifier: Apache-2.0
"""Images: created, listed, shown, changed and deleted, by those who may."""

import uuid

import pytest

from roost.api.image import images
from roost.records.image_catalogue import NewImage, create_image, update_image

IMAGES = "/image/v2/images"


def make(client, name=None, **more):
    answer = client.post(IMAGES, {"name": name or f"image-{uuid.uuid4()}", **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def names(client, **query):
    found = client.get(IMAGES, params={"limit": 1000, **query})
    assert found.status_code == 200, found.text
    return [each["name"] for each in found.json()["images"]]


def test_an_image_is_created_with_properties_and_shown(cloud, member):
    made = make(member, "debian", disk_format="qcow2", container_format="bare", min_ram=64, hw_cpu_policy="shared")
    shown = member.get(f"{IMAGES}/{made['id']}").json()
    assert shown == made
    assert (made["name"], made["status"], made["min_ram"], made["hw_cpu_policy"]) == (
        "debian",
        "active",
        64,
        "shared",
    )
    assert (made["owner"], made["visibility"]) == (cloud.projects["ours"], "shared")
    assert made["created_at"].endswith("Z")


def test_a_client_finds_an_image_by_name_and_several_by_their_ids(member):
    one, two = make(member), make(member)
    assert names(member, name=one["name"]) == [one["name"]]
    assert sorted(names(member, id=f"in:{one['id']},{two['id']}")) == sorted([one["name"], two["name"]])
    assert member.get(f"{IMAGES}/{one['name']}").status_code == 404


def test_properties_are_added_replaced_and_removed(member):
    made = make(member, os_distro="debian", os_version="12")
    patch = [
        {"op": "replace", "path": "/os_version", "value": "13"},
        {"op": "remove", "path": "/os_distro"},
        {"op": "add", "path": "/hw_machine_type", "value": "q35"},
        {"op": "replace", "path": "/name", "value": "renamed"},
    ]
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    answer = member.request("PATCH", f"{IMAGES}/{made['id']}", patch, headers=headers)
    assert answer.status_code == 200, answer.text
    found = member.get(f"{IMAGES}/{made['id']}").json()
    assert (found["name"], found["os_version"], found["hw_machine_type"]) == ("renamed", "13", "q35")
    assert "os_distro" not in found


def test_another_project_sees_neither_private_nor_shared_images(cloud, member):
    other = cloud.client("other")
    for visibility in ("private", "shared"):
        made = make(member, visibility=visibility)
        assert other.get(f"{IMAGES}/{made['id']}").status_code == 404
        assert other.delete(f"{IMAGES}/{made['id']}").status_code == 404
        assert made["name"] not in names(other)
        assert made["name"] in names(member)


def test_administrators_alone_publish_an_image_and_all_see_it(cloud, admin, member):
    refused = member.post(IMAGES, {"name": "x", "visibility": "public"})
    assert refused.status_code == 403
    made = make(admin, visibility="public")
    assert made["name"] in names(member)
    assert member.request("PATCH", f"{IMAGES}/{made['id']}", []).status_code == 403
    assert member.delete(f"{IMAGES}/{made['id']}").status_code == 403
    own = make(member)
    published = [{"op": "replace", "path": "/visibility", "value": "public"}]
    assert member.request("PATCH", f"{IMAGES}/{own['id']}", published).status_code == 403


def test_a_deleted_image_is_gone(member):
    made = make(member)
    assert member.delete(f"{IMAGES}/{made['id']}").status_code == 204
    assert member.get(f"{IMAGES}/{made['id']}").status_code == 404


def test_a_list_has_pages(member):
    mine = {make(member, "paged")["id"] for _ in range(3)}
    first = member.get(IMAGES, params={"name": "paged", "limit": 2}).json()
    second = member.get(f"/image{first['next']}").json()
    assert {each["id"] for each in first["images"] + second["images"]} == mine
    assert "next" not in second


def test_an_id_is_taken_once(member):
    wanted = str(uuid.uuid4())
    assert make(member, id=wanted)["id"] == wanted
    assert member.post(IMAGES, {"name": "again", "id": wanted}).status_code == 409


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 7},
        {"visibility": "secret"},
        {"min_ram": -1},
        {"min_ram": 2**40},
        {"colour": 7},
        {"colour": {"deep": "x"}},
        {"tags": ["x"]},
        {"protected": True},
        {"os_hidden": True},
        {"owner": ""},
        {"min_disk": -1},
        {"min_disk": "1"},
        {"min_ram": True},
        {"disk_format": "wrong"},
        {"container_format": "wrong"},
        {"disk_format": ""},
        {"disk_format": "ami", "container_format": "bare"},
        {"": "a property without a name"},
        {"hw_cpu_policy": "nonsense"},
        {"id": "no uuid"},
        {f"p{n}": "x" for n in range(200)},
    ],
)
def test_an_image_that_cannot_be_is_refused(member, wrong):
    answer = member.post(IMAGES, {"name": "wrong", **wrong})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"op": "add"},
        {"op": "move", "path": "/name", "value": "x"},
        {"op": "add", "path": "name", "value": "x"},
        {"op": "remove", "path": "/name"},
        {"op": "replace", "path": "/min_disk", "value": "1"},
        {"op": "replace", "path": "/min_disk", "value": -1},
        {"op": "replace", "path": "/disk_format", "value": "wrong"},
        {"op": "replace", "path": "/container_format", "value": "wrong"},
        {"op": "replace", "path": "/disk_format"},
        {"op": "add", "path": "/os_distro"},
        {"op": "replace", "path": "/os_distro", "value": None},
        {"op": "remove", "path": "/tags"},
        {"op": "replace", "path": "/tags", "value": False},
        {"op": "replace", "path": "/protected", "value": True},
        {"op": "replace", "path": "/protected", "value": []},
        {"op": "replace", "path": "/os_hidden", "value": None},
        {"op": "replace", "path": "/name", "value": 7},
        {"add": "/os_version"},
        {"add": "/os_version", "replace": "/name", "value": "x"},
        {"value": "x"},
        {"op": "replace", "path": "/min_disk", "value": None},
        {"op": "add", "path": "/tags", "value": ["x"]},
        {"op": "replace", "path": "/visibility", "value": "secret"},
        {"op": "add", "path": "/colour", "value": 7},
    ],
)
def test_a_change_that_cannot_be_is_refused_and_changes_nothing(member, wrong):
    made = make(member)
    also = {"op": "add", "path": "/os_distro", "value": "debian"}
    assert member.request("PATCH", f"{IMAGES}/{made['id']}", [also, wrong]).status_code == 400
    assert member.get(f"{IMAGES}/{made['id']}").json() == made


RESERVED = ["id", "status", "size", "checksum", "created_at", "updated_at", "self", "file", "schema", "virtual_size"]
RESERVED += ["locations", "direct_url", "os_hash_algo", "os_hash_value", "stores", "location", "deleted"]
RESERVED += ["os_glance_foo", "os_glance_importing_to_stores"]


@pytest.mark.parametrize("name", RESERVED)
def test_what_is_the_service_s_own_is_not_written_by_clients(member, name):
    """D30: 403, as Glance says it; the id alone is the client's to choose, when the image is made."""
    if name != "id":
        assert member.post(IMAGES, {"name": "wrong", name: "x"}).status_code == 403
    made = make(member)
    for change in ({"op": "add", "value": "x"}, {"op": "replace", "value": "x"}, {"op": "remove"}):
        patch = [{"op": "add", "path": "/os_distro", "value": "debian"}, change | {"path": f"/{name}"}]
        answer = member.request("PATCH", f"{IMAGES}/{made['id']}", patch)
        assert answer.status_code == 403
        assert name in answer.json()["error"]["message"]
    assert member.get(f"{IMAGES}/{made['id']}").json() == made


def test_a_wrong_format_is_answered_with_those_that_there_are(member):
    """D30."""
    told = member.post(IMAGES, {"disk_format": "wrong"}).json()["error"]["message"]
    assert "disk_format" in told
    assert "qcow2" in told
    made = make(member, disk_format="raw")
    change = [{"op": "replace", "path": "/container_format", "value": "wrong"}]
    told = member.request("PATCH", f"{IMAGES}/{made['id']}", change).json()["error"]["message"]
    assert "container_format" in told
    assert "bare" in told


def test_an_image_that_was_imported_with_another_format_can_still_be_changed(cloud, member):
    record = NewImage("old", disk_format="cow", owner=cloud.projects["ours"], visibility="private")
    key = create_image(cloud.dev.engine, record, cloud.dev.api.parts.servers.times).id
    change = [{"op": "replace", "path": "/name", "value": "renamed"}]
    answer = member.request("PATCH", f"{IMAGES}/{key}", change)
    assert (answer.status_code, answer.json()["disk_format"]) == (200, "cow")


def test_a_property_that_is_not_there_is_neither_replaced_nor_removed(member):
    made = make(member, os_distro="debian")
    path = f"{IMAGES}/{made['id']}"
    for change in ({"op": "remove"}, {"op": "replace", "value": "x"}):
        answer = member.request("PATCH", path, [change | {"path": "/os_version"}])
        assert answer.status_code == 409
        assert "os_version" in answer.json()["error"]["message"]
    several = [
        {"op": "add", "path": "/os_version", "value": "12"},
        {"op": "replace", "path": "/os_version", "value": "13"},
        {"op": "remove", "path": "/os_distro"},
        {"op": "add", "path": "/os_distro", "value": "debian"},
    ]
    found = member.request("PATCH", path, several).json()
    assert (found["os_version"], found["os_distro"]) == ("13", "debian")
    twice = [{"op": "remove", "path": "/os_distro"}] * 2
    assert member.request("PATCH", path, twice).status_code == 409
    assert member.get(path).json() == found


def test_a_patch_in_the_older_form_is_understood(member):
    """D30: of the media type application/openstack-images-v2.0-json-patch, which Tempest and old clients send."""
    made = make(member, os_distro="debian")
    patch = [
        {"replace": "/name", "value": "renamed"},
        {"remove": "/os_distro"},
        {"add": "/os_version", "value": "13"},
    ]
    headers = {"Content-Type": "application/openstack-images-v2.0-json-patch"}
    answer = member.request("PATCH", f"{IMAGES}/{made['id']}", patch, headers=headers)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["name"], answer.json()["os_version"]) == ("renamed", "13")
    assert "os_distro" not in answer.json()


def test_only_administrators_make_images_for_others(cloud, admin, member):
    """D30: another owner was dropped in silence."""
    assert make(member, owner=cloud.projects["ours"])["owner"] == cloud.projects["ours"]
    assert member.post(IMAGES, {"name": "x", "owner": cloud.projects["theirs"]}).status_code == 403
    made = make(admin, owner=cloud.projects["theirs"])
    assert made["owner"] == cloud.projects["theirs"]
    mine = make(member)
    for owner in (cloud.projects["theirs"], cloud.projects["ours"]):
        change = [{"op": "replace", "path": "/owner", "value": owner}]
        assert member.request("PATCH", f"{IMAGES}/{mine['id']}", change).status_code == 403


@pytest.mark.parametrize("query", [{"limit": -1}, {"limit": "x"}, {"marker": "unknown"}, {"sort_key": "secret"}])
def test_a_page_that_cannot_be_is_refused(member, query):
    assert member.get(IMAGES, params=query).status_code == 400


def test_data_is_not_taken_and_its_end_alone_is_no_harm(member):
    made = make(member)
    path = f"{IMAGES}/{made['id']}/file"
    headers = {**member.headers, "Content-Type": "application/octet-stream"}
    assert member.http.put(path, content=b"", headers=headers).status_code == 204
    refused = member.http.put(path, content=b"data", headers=headers)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "Images here have no data: leave out the file."


def test_an_image_has_so_many_properties_and_no_more(member):
    path = f"/image/v2/images/{member.post('/image/v2/images', {'name': 'full'}).json()['id']}"

    def add(first, count):
        changes = [{"op": "add", "path": f"/p{number}", "value": "x"} for number in range(first, first + count)]
        return member.request("PATCH", path, changes).status_code

    assert (add(0, 100), add(100, 28), add(128, 1)) == (200, 200, 400)
    gone = [{"op": "remove", "path": "/p0"}, {"op": "add", "path": "/p128", "value": "x"}]
    assert member.request("PATCH", path, gone).status_code == 200


def test_changes_of_the_same_moment_do_not_add_up_to_more_properties(member, monkeypatch):
    """D42: each of them was counted alone, before it was written."""
    path = f"{IMAGES}/{make(member)['id']}"
    statuses = []

    def change(part):
        patch = [{"op": "add", "path": f"/{part}_{number}", "value": "v"} for number in range(100)]
        statuses.append(member.request("PATCH", path, patch).status_code)

    def write_late(*values, **more):
        monkeypatch.undo()
        change("other")
        return update_image(*values, **more)

    monkeypatch.setattr(images, "update_image", write_late)
    change("one")
    assert statuses == [200, 400]
    assert len([name for name in member.get(path).json() if name.startswith(("one", "other"))]) == 100
