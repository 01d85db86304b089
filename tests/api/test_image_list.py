# SPDX-License-Identifier: Apache-2.0
"""Lists of images (D30): by what they are sorted and filtered, and pages that lose and repeat none."""

import uuid
from urllib.parse import parse_qsl, urlsplit

import openstack
import pytest
from tests.api.cloud import PASSWORD

from roost.records.image_catalogue import NewImage, create_image

IMAGES = "/image/v2/images"
MIB = 2**20


@pytest.fixture(scope="module")
def group():
    """The value of a property that the images of this module have, and no others."""
    return f"group-{uuid.uuid4()}"


@pytest.fixture(scope="module", autouse=True)
def six(cloud, group):
    """Six images of `ours`, in the order in which they were made; a and b are equal in all but their ids."""
    sizes = {"a": None, "b": None, "c": 3 * MIB, "d": 2 * MIB, "e": 1 * MIB, "f": None}
    for name, size in sizes.items():
        fields = {"disk_format": "raw" if name in "cd" else "qcow2", "container_format": "bare"}
        common = {"owner": cloud.projects["ours"], "visibility": "private", "properties": {"group": group, "n": name}}
        made = NewImage("twin" if name in "ab" else name, size=size, min_ram=len(sizes), **common, **fields)
        create_image(cloud.dev.engine, made, cloud.dev.api.parts.servers.times)


@pytest.fixture
def found(member, group):
    """The images of this module in a list, as their letters."""

    def found(client=member, **query):
        answer = client.get(IMAGES, params={"group": group, **query})
        assert answer.status_code == 200, answer.text
        return "".join(each["n"] for each in answer.json()["images"])

    return found


# --- order -------------------------------------------------------------------------------------------


def test_the_latest_image_comes_first(found):
    """D30: created_at is the default of Glance, of its client and of Horizon."""
    assert found() == found(sort_key="created_at", sort_dir="desc") == found(sort_key="created_at") == "fedcba"
    assert found(sort_dir="asc") == found(sort="created_at:asc") == "abcdef"


@pytest.mark.parametrize(
    ("query", "letters"),
    [
        ({"sort_key": ["name", "created_at"], "sort_dir": "asc"}, "cdefab"),
        ({"sort_key": ["name", "created_at"], "sort_dir": ["desc", "asc"]}, "abfedc"),
        ({"sort": "disk_format:asc,name:desc,created_at:asc"}, "abfedc"),
        ({"sort": "disk_format,created_at"}, "dcfeba"),
        ({"sort": "size:asc,created_at:asc"}, "edcabf"),
        ({"sort": "size,created_at:asc"}, "abfcde"),
        ({"sort": "status:asc,container_format:asc,min_ram:asc,updated_at:desc"}, "fedcba"),
    ],
)
def test_images_are_sorted_by_several_keys_each_in_its_direction(found, query, letters):
    """D30: images without a size are the greatest, on all databases."""
    assert found(**query) == letters


@pytest.mark.parametrize(
    "query",
    [
        {"sort_key": "secret"},
        {"sort": "name:asc,secret"},
        {"sort_key": ""},
        {"sort": "name:up"},
        {"sort_dir": "up"},
        {"sort_key": ["name", "size", "id"], "sort_dir": ["asc", "desc"]},
        {"sort": "name", "sort_key": "name"},
        {"sort": "name", "sort_dir": "asc"},
        {"sort": ",".join(["name"] * 40)},
    ],
)
def test_an_order_that_cannot_be_is_refused(member, query):
    answer = member.get(IMAGES, params=query)
    assert answer.status_code == 400
    assert "sort" in answer.json()["error"]["message"]


def test_an_unknown_sort_key_is_answered_with_those_that_there_are(member):
    told = member.get(IMAGES, params={"sort_key": "secret"}).json()["error"]["message"]
    for key in ("created_at", "updated_at", "name", "size", "status", "id", "disk_format", "container_format"):
        assert key in told


@pytest.mark.parametrize(
    "key",
    ["name", "status", "container_format", "disk_format", "size", "id", "created_at", "updated_at", "min_ram"],
)
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_pages_follow_one_another_in_every_order(member, found, group, key, direction):
    """D30: no image is lost or repeated, whether the key has equal values or none."""
    whole, letters = found(sort_key=key, sort_dir=direction), ""
    address = f"/v2/images?group={group}&sort_key={key}&sort_dir={direction}&limit=2"
    while address:
        page = member.get(f"/image{address}").json()
        letters += "".join(each["n"] for each in page["images"])
        address = page.get("next")
    assert sorted(whole) == list("abcdef")
    assert letters == whole


def test_the_next_page_has_the_filters_of_the_first(member, group):
    query = [("group", group), ("disk_format", "in:raw,qcow2"), ("sort", "name:asc,id:asc"), ("limit", "2")]
    page = member.get(IMAGES, params=query).json()
    assert parse_qsl(urlsplit(page["first"]).query) == query
    assert parse_qsl(urlsplit(page["next"]).query) == [*query, ("marker", page["images"][-1]["id"])]


# --- filters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "letters"),
    [
        ({"name": "twin"}, "ba"),
        ({"name": "in:twin,c"}, "cba"),
        ({"name": 'in:"twin","c,d"'}, "ba"),
        ({"disk_format": "raw"}, "dc"),
        ({"disk_format": "in:raw,iso"}, "dc"),
        ({"container_format": "bare"}, "fedcba"),
        ({"container_format": "ovf"}, ""),
        ({"status": "active"}, "fedcba"),
        ({"status": "in:queued,saving"}, ""),
        ({"visibility": "private"}, "fedcba"),
        ({"visibility": "public"}, ""),
        ({"size_min": 2 * MIB}, "dc"),
        ({"size_min": MIB + 1, "size_max": 2 * MIB}, "d"),
        ({"min_ram": 6}, "fedcba"),
        ({"min_ram": 5}, ""),
        ({"min_disk": 1}, ""),
        ({"n": "c"}, "c"),
        ({"n": "c", "colour": "red"}, ""),
        ({"created_at": "gt:2020-01-01T00:00:00Z"}, "fedcba"),
        ({"created_at": "lt:2020-01-01T00:00:00"}, ""),
        ({"updated_at": "gte:2020-01-01T00:00:00+01:00"}, "fedcba"),
        ({"updated_at": "2020-01-01T00:00:00Z"}, ""),
        ({"updated_at": "neq:2020-01-01T00:00:00Z"}, "fedcba"),
        ({"protected": "true"}, ""),
        ({"protected": "False"}, "fedcba"),
        ({"os_hidden": "true"}, ""),
        ({"tag": "mine"}, ""),
        ({"checksum": "d41d8cd98f00b204e9800998ecf8427e"}, ""),
        ({"os_hash_value": "x"}, ""),
    ],
)
def test_a_filter_chooses_and_is_never_dropped(found, query, letters):
    """D30: a filter that has no effect gives a script images that it did not ask for. Properties are filters too."""
    assert found(**query) == letters


def test_a_time_is_compared_as_it_is_shown(member, found, group):
    shown = member.get(IMAGES, params={"group": group, "n": "c"}).json()["images"][0]["created_at"]
    assert "c" in found(created_at=shown)
    assert "c" in found(created_at=f"eq:{shown}")
    assert "c" in found(created_at=f"lte:{shown}")
    for operator in ("gt", "lt", "neq"):
        assert "c" not in found(created_at=f"{operator}:{shown}")


@pytest.mark.parametrize(
    "query",
    [
        {"visibility": "secret"},
        {"member_status": "perhaps"},
        {"protected": "perhaps"},
        {"os_hidden": "perhaps"},
        {"size_min": -1},
        {"size_max": "x"},
        {"size_max": 2**70},
        {"min_ram": "x"},
        {"name": "in:a\nb"},
        {"name": 'in:"a'},
        {"status": 'in:"a"b'},
        {"created_at": "yesterday"},
        {"created_at": "after:2020-01-01T00:00:00Z"},
        {"created_at": "lte:9999-12-31T23:59:59Z"},
    ],
)
def test_a_filter_with_an_impossible_value_is_refused(member, query):
    answer = member.get(IMAGES, params=query)
    assert answer.status_code == 400
    assert next(iter(query)) in answer.json()["error"]["message"]


def test_images_of_a_community_are_listed_for_those_who_ask_for_them(cloud, member):
    name = f"community-{uuid.uuid4()}"
    assert member.post(IMAGES, {"name": name, "visibility": "community"}).status_code == 201
    other = cloud.client("other")
    assert other.get(IMAGES, params={"name": name}).json()["images"] == []
    (seen,) = other.get(IMAGES, params={"name": name, "visibility": "community"}).json()["images"]
    assert seen["visibility"] == "community"


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_openstacksdk_lists_images_in_the_order_and_by_the_filters_it_is_told(cloud):
    sdk = openstack.connect(
        auth_url=f"{cloud.address}/identity/v3",
        username="ann",
        password=PASSWORD,
        project_name="ours",
        user_domain_id="default",
        project_domain_id="default",
        identity_interface="public",
        region_name="RegionOne",
        load_yaml_config=False,
        load_envvars=False,
    )
    listed = sdk.image.images(sort="size:asc,name:desc", limit=2, size_min=1, size_max=3 * MIB)
    assert [each.name for each in listed] == ["e", "d", "c"]
    assert sdk.image.find_image("c", ignore_missing=False).name == "c"
    sdk.close()
