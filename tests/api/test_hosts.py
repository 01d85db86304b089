# SPDX-License-Identifier: Apache-2.0
"""/roost/v1/hosts: the fleet with what is free."""

import pytest
from tests.api.placed import create
from tests.api.roost_form import check_form
from tests.api.statements import statements_of

PATH = "/roost/v1/hosts"


def test_the_hosts_are_those_of_the_command_with_what_is_free(admin, cloud):
    answer = admin.get(PATH)
    check_form(admin, PATH, answer)
    found = answer.json()["hosts"]
    assert [each["host"] for each in found] == [each["host"] for each in cloud.dev.client.list_hosts()]
    assert all(each["memory_mb_free"] > 0 for each in found)


def test_what_a_server_takes_is_not_free_any_more(admin, cloud):
    before = {each["host"]: each for each in admin.get(PATH).json()["hosts"]}
    server = create(cloud, "ours")
    host = cloud.dev.client.get_server(server)["host"]
    after = admin.get(f"{PATH}/{host}")
    check_form(admin, f"{PATH}/{{host}}", after)
    flavor = next(each for each in cloud.dev.client.list_flavors() if each["name"] == "small")
    assert before[host]["memory_mb_free"] - after.json()["memory_mb_free"] == flavor["memory_mb"]
    assert before[host]["vcpus_free"] - after.json()["vcpus_free"] == flavor["vcpus"]


def test_pages_follow_one_another(admin):
    answer, seen = admin.get(f"{PATH}?limit=4").json(), []
    while answer["hosts"]:
        seen += [each["host"] for each in answer["hosts"]]
        if "hosts_links" not in answer:
            break
        answer = admin.http.get(answer["hosts_links"][0]["href"], headers=admin.headers).json()
    assert seen == sorted(seen)
    assert len(seen) == 10


def test_the_number_of_statements_does_not_grow_with_the_hosts(admin, cloud):
    def sent(limit):
        return statements_of(cloud, lambda: admin.get(f"{PATH}?limit={limit}").json())

    assert sent(10) - sent(2) <= 2  # some are only sent where hosts have devices, or servers


def test_a_host_that_does_not_exist_is_not_found(admin):
    assert admin.get(f"{PATH}/nowhere").status_code == 404


def test_readers_of_the_system_see_hosts_and_members_do_not(cloud, member):
    assert cloud.client("system_reader").get(PATH).status_code == 200
    assert (member.get(PATH).status_code, member.get(f"{PATH}/h").status_code) == (403, 403)


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", "limit=1001", "marker=none"])
def test_wrong_pages_are_refused(admin, query):
    assert admin.get(f"{PATH}?{query}").status_code == 400
