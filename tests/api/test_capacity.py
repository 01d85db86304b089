# SPDX-License-Identifier: Apache-2.0
"""/roost/v1/capacity: how many more servers fit."""

import pytest
from tests.api.roost_form import check_form

from roost.api.roost import capacity

PATH = "/roost/v1/capacity"


def counted(client, query=""):
    answer = client.get(f"{PATH}{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()["capacity"]


def test_a_flavor_is_counted_by_zone(admin):
    answer = admin.get(f"{PATH}?flavor=small")
    check_form(admin, PATH, answer)
    (found,) = answer.json()["capacity"]
    assert found["flavor"] == "small"
    assert (
        found["fits"]
        == sum(each["fits"] for each in found["groups"])
        == sum(each["fits"] for each in found["placed"])
    )
    assert [each["name"] for each in found["groups"]] == ["zone-a", "zone-b", "zone-c"]


def test_without_a_flavor_each_is_counted(admin, cloud):
    flavors = {each["name"] for each in cloud.dev.client.list_flavors()}
    assert {each["flavor"] for each in counted(admin)} >= flavors


def test_counting_stops_where_it_is_told_to(admin):
    (found,) = counted(admin, "?flavor=small&most=3")
    assert (found["fits"], found["is_complete"]) == (3, False)


def test_the_loss_of_a_host_is_counted_on_demand(admin):
    (found,) = counted(admin, "?flavor=small&n_plus_one=true")
    assert found["worst_loss"]["fits"] < found["fits"]


def test_readers_of_the_system_may_ask_and_members_may_not(cloud, member):
    assert counted(cloud.client("system_reader"), "?flavor=small")
    assert member.get(PATH).status_code == 403


def test_an_answer_that_takes_too_long_is_given_up(admin, monkeypatch):
    monkeypatch.setattr(capacity, "MOST_SECONDS", -1.0)
    answer = admin.get(PATH)
    assert answer.status_code == 503
    assert "ask for less" in answer.json()["error"]["message"]


def test_an_unknown_flavor_is_not_found(admin):
    assert admin.get(f"{PATH}?flavor=smalll").status_code == 404


@pytest.mark.parametrize("query", ["most=0", "most=x", "n_plus_one=perhaps"])
def test_wrong_questions_are_refused(admin, query):
    assert admin.get(f"{PATH}?{query}").status_code == 400
