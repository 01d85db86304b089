# SPDX-License-Identifier: Apache-2.0
import uuid
from urllib.parse import parse_qsl, urlsplit

import pytest
from tests.api.cloud import wait_for
from tests.api.servers import refusal, running_server, wanted_server
from tests.api.statements import statements_of


@pytest.fixture(scope="module")
def three(cloud):
    """Three servers of the project `ours`, b-1 to b-3 after a name of their own; that name."""
    member, name = cloud.client("member"), f"b{uuid.uuid4().hex[:8]}"
    body = wanted_server(name=name, min_count=3, max_count=3, metadata={"role": name}, return_reservation_id=True)
    body |= {"description": "a text", "accessIPv4": "192.0.2.1", "accessIPv6": "2001:db8::9"}
    body["OS-DCF:diskConfig"] = "AUTO"
    own = member.post("/servers", {"server": body}).json()["reservation_id"]

    def all_active():
        found = member.get("/servers/detail", params={"reservation_id": own}).json()["servers"]
        return [each["status"] for each in found] == ["ACTIVE"] * 3 and found

    found = wait_for(all_active, "three servers")
    yield name
    for each in found:
        member.delete(f"/servers/{each['id']}")


def names(client, path="/servers", **query):
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return [each["name"] for each in answer.json()["servers"]]


def test_a_member_sees_the_servers_of_the_own_project(member, cloud, three):
    assert sorted(names(member, name=three)) == [f"{three}-1", f"{three}-2", f"{three}-3"]
    assert sorted(names(cloud.client("reader"), name=three)) == sorted(names(member, name=three))
    assert names(cloud.client("other"), name=three) == []


def test_the_short_list_has_ids_names_and_links_alone(member, three):
    (found,) = member.get(f"/servers?name={three}-1").json()["servers"]
    assert set(found) == {"id", "name", "links"}


@pytest.mark.parametrize("flag", ["all_tenants=True", "all_tenants=1", "all_tenants"])
def test_administrators_see_those_of_all_projects_where_they_ask_for_it(admin, three, flag):
    assert names(admin, name=three) == []
    assert len(admin.get(f"/servers?name={three}&{flag}").json()["servers"]) == 3
    assert names(admin, name=three, all_tenants="False") == []


def test_a_member_may_not_ask_for_all_projects(member, cloud):
    assert refusal(member.get("/servers?all_tenants=1"))[0] == 403
    assert refusal(member.get("/servers/detail?all_tenants=1"))[0] == 403


def test_an_administrator_asks_for_one_project(admin, cloud, three):
    query = {"name": three, "all_tenants": "1"}
    assert len(names(admin, **query, project_id=cloud.projects["ours"])) == 3
    assert names(admin, **query, project_id=cloud.projects["theirs"]) == []


@pytest.mark.parametrize("key", ["tenant_id", "project_id"])
@pytest.mark.parametrize("path", ["/servers", "/servers/detail"])
def test_without_all_tenants_the_own_project_is_listed_whichever_is_named(admin, cloud, three, key, path):
    """D32: it listed the servers of the named project, as if all_tenants were given."""
    with running_server(admin) as own:
        for project in ("ours", "admins"):
            query = {key: cloud.projects[project]}
            assert own["name"] in names(admin, path, **query)
            assert names(admin, path, name=three, **query) == []


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"name": "^{}-1$"}, 1),
        ({"name": "{}-."}, 3),
        ({"name": "{}", "status": "ACTIVE"}, 3),
        ({"name": "{}", "status": ["error", "active"]}, 3),
        ({"name": "{}", "status": "SHUTOFF"}, 0),
        ({"name": "{}", "status": "NOTHING"}, 0),
        ({"name": "{}", "flavor": "small"}, 3),
        ({"name": "{}", "flavor": "web"}, 0),
        ({"name": "{}", "image": "none"}, 0),
        ({"metadata": '{{"role": "{}"}}'}, 3),
        ({"name": "{}", "ip": "10.0.0.1"}, 0),
        ({"name": "{}", "locked": "True"}, 0),
        ({"name": "{}", "locked": "False"}, 3),
        ({"name": "{}", "changes-since": "2020-01-01T00:00:00Z"}, 3),
        ({"name": "{}", "changes-before": "2020-01-01T00:00:00"}, 0),
        ({"name": "{}", "deleted": "False"}, 3),
        ({"name": "{}", "host": "nowhere"}, 3),
        ({"name": "{}-[0-9]"}, 3),
        ({"name": "^{}-[12]$"}, 2),
        ({"name": "{0}-1|{0}-2"}, 2),
        ({"name": "({})-1"}, 1),
        ({"name": "{}-1+"}, 1),
        ({"name": r"^.*\-[[:digit:]]+$", "metadata": '{{"role": "{}"}}'}, 3),
        ({"display_name": "^{}-[12]$"}, 2),
    ],
)
def test_filters(member, three, query, count):
    filled = {
        key: [each.format(three) for each in value] if isinstance(value, list) else value.format(three)
        for key, value in query.items()
    }
    assert len(names(member, **filled)) == count


FILTERS = [
    # key, a value that all three servers have, a value that none has
    ("description", "^a [[:alpha:]]+$", "^b"),
    ("display_description", "text$", "x{2}"),
    ("hostname", "-[123]$", "^-"),
    ("access_ip_v4", r"^192\.0\.2\.[0-9]+$", "198"),
    ("access_ip_v6", "^2001:db8:", "::1$"),
    ("vm_state", "active", "stopped"),
    ("task_state", None, "deleting"),
    ("power_state", "1", "4"),
    ("power_state", "1", "7"),
    ("auto_disk_config", "True", "False"),
    ("launch_index", None, "3"),
    ("progress", "0", "50"),
    ("config_drive", "False", "True"),
    ("key_name", None, "mine"),
    ("kernel_id", None, "mine"),
    ("ramdisk_id", None, "mine"),
    ("root_device_name", None, "/dev/vda"),
    ("locked_by", None, "owner"),
    ("created_at", "created", "2020-01-01T00:00:00Z"),
    ("launched_at", "OS-SRV-USG:launched_at", "9999-12-31T23:59:59.999999Z"),
    ("terminated_at", None, "2020-01-01T00:00:00Z"),
    ("availability_zone", "OS-EXT-AZ:availability_zone", "mars"),
    ("user_id", "user_id", "nobody"),
    ("not-tags", "a", None),
    ("not-tags-any", "a", None),
    ("tags", None, "a"),
    ("tags-any", None, "a"),
    ("ip6", None, "::1"),
    ("soft_deleted", "True", None),
]


@pytest.mark.parametrize(("key", "of_all", "of_none"), FILTERS)
def test_no_filter_is_taken_and_ignored(member, three, key, of_all, of_none):
    """D28: description, key_name, config_drive, and for members states and users were taken and ignored."""
    first = member.get("/servers/detail", params={"name": f"{three}-1"}).json()["servers"][0]
    for value, expected in ((first.get(of_all, of_all), f"{three}-1"), (of_none, None)):
        if value is not None:
            found = names(member, name=f"^{three}-[12]$", **{key: value})
            assert (expected in found) if expected else found == [], (key, value)


def test_indexes_of_a_request_are_filtered(member, three):
    assert [names(member, name=three, launch_index=at) for at in range(3)] == [[f"{three}-{at}"] for at in (1, 2, 3)]


def test_pages_of_a_regular_expression_follow_one_another(member, three, monkeypatch):
    """D28."""
    monkeypatch.setattr("roost.records.server_views.ROWS_AT_ONCE", 1)
    query = {"name": f"{three}-[13]", "limit": 1, "sort_key": "display_name", "sort_dir": "asc"}
    seen = []
    while True:
        page = member.get("/servers", params=query).json()
        seen += [each["name"] for each in page["servers"]]
        if "servers_links" not in page:
            break
        query = parse_qsl(urlsplit(page["servers_links"][0]["href"]).query)
    assert seen == [f"{three}-1", f"{three}-3"]


def test_an_administrator_filters_by_host(admin, three):
    query = {"name": three, "all_tenants": "1"}
    found = admin.get("/servers/detail", params=query).json()["servers"]
    host = found[0]["OS-EXT-SRV-ATTR:host"]
    here = [each["name"] for each in found if each["OS-EXT-SRV-ATTR:host"] == host]
    assert sorted(names(admin, **query, host=host)) == sorted(here)
    assert names(admin, **query, host="nowhere") == []


def test_deleted_servers_are_for_administrators(admin, member, cloud):
    with running_server(member) as server:
        pass
    query = {"name": server["name"], "all_tenants": "1"}
    wait_for(lambda: names(admin, **query) == [], "the deletion")
    assert names(admin, **query, deleted="True") == [server["name"]]
    assert names(admin, **query, status="DELETED") == [server["name"]]
    assert names(member, name=server["name"], deleted="True") == []
    assert refusal(member.get("/servers?status=deleted"))[0] == 403
    found = admin.get("/servers/detail", params={**query, "changes-since": "2020-01-01T00:00:00Z"}).json()["servers"]
    assert [each["status"] for each in found] == ["DELETED"]


def test_pages_follow_one_another(member, three, cloud):
    page = member.get("/servers", params={"name": three, "limit": 2, "sort_key": "display_name", "sort_dir": "asc"})
    assert [each["name"] for each in page.json()["servers"]] == [f"{three}-1", f"{three}-2"]
    (link,) = page.json()["servers_links"]
    assert (link["rel"], link["href"].startswith(f"{cloud.address}/v2.1/servers?")) == ("next", True)
    last = member.get("/servers", params=parse_qsl(urlsplit(link["href"]).query)).json()
    assert [each["name"] for each in last["servers"]] == [f"{three}-3"]
    assert "servers_links" not in last


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("marker=unknown", "marker [unknown] not found"),
        ("sort_key=password", "sort_key"),
        ("sort_dir=up", "Unknown sort direction"),
        ("changes-since=yesterday", "changes-since"),
        ("changes-since=0001-01-01T00:00:00%2B14:00", "out of range"),
        ("metadata=[", "metadata"),
        (r'metadata={"a":"\u0000"}', "metadata"),
        (r'metadata={"\ud800":"a"}', "metadata"),
        ("all_tenants=maybe", "all_tenants"),
        ("color=red", "Additional properties are not allowed"),
        ("name=" + "x" * 256, "name"),
        ("name=a(b", "a bracket ( without its ) at character 2"),
        ("name=*web*", "* with nothing to repeat at character 1"),
        (r"name=(a)%5C1", "which is no character at character 4"),
        ("name=a&name=b", "name: it is given 2 times"),
        ("nam=web", "did you mean name?"),
        ("name=a&display_name=b", "the same filter"),
    ],
)
def test_a_query_that_cannot_be_is_refused(member, query, text):
    status, message = refusal(member.get(f"/servers?{query}"))
    assert (status, text in message) == (400, True), message


def test_unknown_keys_are_ignored_before_275(member):
    assert member.get("/servers?color=red", version="compute 2.74").status_code == 200


def test_the_number_of_statements_does_not_grow_with_the_servers(admin, cloud, three):
    def counted(limit):
        return statements_of(cloud, lambda: admin.get(f"/servers/detail?all_tenants=1&name={three}&limit={limit}"))

    assert counted(3) == counted(1)
