# SPDX-License-Identifier: Apache-2.0
"""/roost/v1/decisions: all of them for administrators and readers of the system, the own project's for members."""

import pytest
from tests.api.placed import HUGE, client_of, create, id_of
from tests.api.roost_form import check_form

from roost.api.roost import decisions

NO_VALID_HOST = "No valid host was found. There are not enough hosts available."


@pytest.fixture(scope="module")
def placed(cloud):
    return create(cloud, "ours")


@pytest.fixture(scope="module")
def failed(cloud):
    return create(cloud, "ours", HUGE)


def listed(client, query=""):
    answer = client.get(f"/roost/v1/decisions{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()["decisions"]


def test_an_administrator_sees_where_a_server_went_and_of_how_many_hosts(admin, cloud, placed):
    answer = admin.get(f"/roost/v1/decisions?server={placed}")
    check_form(admin, "/roost/v1/decisions", answer)
    (found,) = answer.json()["decisions"]
    assert found["hosts"] == 10
    assert found["summary"].startswith("1 of 1 placed on ")
    assert found["project_id"] == cloud.projects["ours"]


def test_a_reader_of_the_system_sees_the_decisions_of_every_project(cloud, admin, placed):
    reader = cloud.client("system_reader")
    assert listed(reader, f"?server={placed}") == listed(admin, f"?server={placed}")
    assert reader.get(f"/roost/v1/decisions/{placed}/why").json()["fits"]


def test_a_reader_of_the_system_without_the_right_to_all_decisions_sees_none(cloud, placed, monkeypatch):
    monkeypatch.setattr(decisions, "SEE_ALL", "context_is_admin")
    assert listed(cloud.client("system_reader")) == []


def test_a_member_sees_the_decisions_of_the_own_project_in_novas_words_and_without_hosts(member, placed, failed):
    found = [*listed(member, f"?server={failed}"), *listed(member, f"?server={placed}")]
    by_placed = {each["placed"]: each for each in found}
    assert by_placed[True]["summary"] == ""
    assert by_placed[False]["summary"] == NO_VALID_HOST
    assert all("hosts" not in each for each in by_placed.values())


def test_a_member_of_another_project_sees_nothing_of_it(cloud, admin, placed):
    other, number = cloud.client("other"), id_of(admin, placed)
    assert listed(other, f"?server={placed}") == []
    for wanted in (number, placed):
        assert other.get(f"/roost/v1/decisions/{wanted}").status_code == 404
        assert other.get(f"/roost/v1/decisions/{wanted}/why").status_code == 404
    assert other.get(f"/roost/v1/decisions?project={cloud.projects['ours']}").status_code == 403


def test_what_does_not_exist_and_what_belongs_to_others_look_alike(cloud, admin, placed):
    other, number = cloud.client("other"), id_of(admin, placed)
    hidden, missing = (other.get(f"/roost/v1/decisions/{each}").json() for each in (number, 10**9))
    assert str(hidden).replace(str(number), "N") == str(missing).replace(str(10**9), "N")


def test_filters_narrow_the_list(admin, cloud, placed, failed):
    assert {each["placed"] for each in listed(admin, "?placed=false")} == {False}
    assert {each["project_id"] for each in listed(admin, f"?project={cloud.projects['ours']}")} == {
        cloud.projects["ours"]
    }
    (found,) = listed(admin, f"?server={failed}")
    assert found in listed(admin, f"?request_id={found['request_id']}")


def test_pages_follow_one_another(admin, placed, failed):
    both = [each["id"] for each in listed(admin)]
    answer = admin.get("/roost/v1/decisions?limit=1").json()
    seen = []
    while answer["decisions"]:
        seen += [each["id"] for each in answer["decisions"]]
        (link,) = answer["decisions_links"]
        answer = admin.http.get(link["href"], headers=admin.headers).json()
    assert seen == both
    assert len(both) >= 2


def test_a_decision_is_shown_as_it_was_recorded(admin, cloud, placed):
    answer = admin.get(f"/roost/v1/decisions/{placed}")
    check_form(admin, "/roost/v1/decisions/{decision}", answer)
    assert answer.json() == client_of(cloud, "ours").get_decision(placed)


def test_a_member_is_shown_no_record(member, failed):
    found = member.get(f"/roost/v1/decisions/{failed}").json()
    assert found["summary"] == NO_VALID_HOST
    assert "data" not in found
    assert member.get(f"/roost/v1/decisions/{failed}/why").json() == found


def test_why_says_what_rejected_the_hosts(admin, failed):
    answer = admin.get(f"/roost/v1/decisions/{failed}/why")
    check_form(admin, "/roost/v1/decisions/{decision}/why", answer)
    found = answer.json()
    assert not found["fits"]
    assert sum(each["hosts"] for each in found["reasons"]) == found["hosts"] == 10


def test_why_says_what_stops_one_host(admin, cloud, failed):
    host = client_of(cloud, "ours").list_hosts()[0]["host"]
    found = admin.get(f"/roost/v1/decisions/{failed}/why?host={host}").json()
    assert found["host"] == host
    assert "ram" in [each["name"] for each in found["blockers"]]
    assert admin.get(f"/roost/v1/decisions/{failed}/why?host=nowhere").status_code == 404


def test_a_node_is_asked_about_with_its_host(admin, failed):
    """D29: a node alone was taken and ignored."""
    answer = admin.get(f"/roost/v1/decisions/{failed}/why?node=n")
    assert (answer.status_code, "give host, too" in answer.text) == (400, True)


def test_members_may_not_ask_about_a_host(member, failed):
    assert member.get(f"/roost/v1/decisions/{failed}/why?host=h").status_code == 403


def test_beyond_what_may_be_under_way_the_answer_says_when_to_come_again(admin, cloud, failed):
    work = cloud.dev.api.parts.fleet_work
    with work.share(), work.share():
        answer = admin.get(f"/roost/v1/decisions/{failed}/why")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert admin.get(f"/roost/v1/decisions/{failed}/why").status_code == 200


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=1001", "before=-1", "placed=maybe", "server="])
def test_wrong_filters_are_refused(admin, query):
    assert admin.get(f"/roost/v1/decisions?{query}").status_code == 400
