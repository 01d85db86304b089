# SPDX-License-Identifier: Apache-2.0
"""/roost/v1/plan: where servers would go, without any consequence."""

import pytest
from sqlalchemy import func, select
from tests.api.placed import HUGE
from tests.api.roost_form import check_form

from roost.api.roost import questions
from roost.store.schema.fleet import allocations
from roost.store.schema.history import decisions
from roost.store.schema.servers import servers

PATH = "/roost/v1/plan"
NO_VALID_HOST = "No valid host was found. There are not enough hosts available."


def planned(client, body):
    answer = client.post(PATH, body)
    assert answer.status_code == 200, answer.text
    check_form(client, PATH, answer, "post")
    return answer.json()


def test_an_administrator_learns_the_hosts_of_a_server_that_fits(admin, cloud):
    found = planned(admin, {"server": {"name": "web", "flavor": "small", "count": 2}})
    assert found["fits"]
    assert [each["name"] for each in found["plan"]] == ["web-1", "web-2"]
    assert {each["host"] for each in found["plan"]} <= {each["host"] for each in cloud.dev.client.list_hosts()}


def test_a_member_learns_only_whether_it_fits(member):
    found = planned(member, {"server": {"name": "web", "flavor": "small"}})
    assert (found["fits"], [each["host"] for each in found["plan"]]) == (True, [None])
    too_many = planned(member, {"server": {"name": "web", "flavor": "giant", "count": 1000}})
    assert (too_many["fits"], too_many["summary"]) == (False, NO_VALID_HOST)


def test_an_administrator_learns_why_nothing_fits(admin):
    found = planned(admin, {"server": {"name": "web", "flavor": "giant", "count": 1000}})
    assert not found["fits"]
    assert "of 10 hosts fit" in found["summary"]


def test_a_plan_leaves_no_trace(admin, cloud):
    def counts():
        wanted = [select(func.count()).select_from(each) for each in (allocations, servers, decisions)]
        with cloud.dev.engine.connect() as connection:
            return [connection.scalar(each) for each in wanted]

    before = counts()
    planned(admin, {"server": {"name": "web", "flavor": "small"}})
    planned(admin, {"servers": [{"name": "web", "flavor": "small"}]})
    cloud.dev._own_cloud.recorder.flush()
    assert counts() == before


def test_several_are_placed_each_with_what_the_earlier_ones_took(admin):
    (whole,) = planned(admin, {"servers": [{"name": "one", "vcpus": 1, "ram": 1024, "count": 1}]})["requests"]
    host = whole["hosts"][0]
    free = admin.get(f"/roost/v1/hosts/{host}").json()["memory_mb_free"]
    half = {"vcpus": 1, "ram": free // 2 + 1, "force_hosts": [host]}
    found = planned(admin, {"servers": [{"name": "first", **half}, {"name": "second", **half}]})
    assert not found["fits"]
    assert [each["fits"] for each in found["requests"]] == [True, False]


def test_several_are_for_those_who_see_the_fleet(member, cloud):
    body = {"servers": [{"name": "web", "flavor": "small"}]}
    assert member.post(PATH, body).status_code == 403
    assert cloud.client("system_reader").post(PATH, body).status_code == 200


def test_a_plan_that_takes_too_long_is_given_up(admin, monkeypatch):
    monkeypatch.setattr(questions, "MOST_SECONDS", -1.0)
    answer = admin.post(PATH, {"servers": [{"name": "web", "flavor": "small"}]})
    assert answer.status_code == 503


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"server": {"name": "web"}},
        {"server": {"name": "web", "flavor": "small"}, "servers": [{"name": "web", "flavor": "small"}]},
        {"servers": []},
        {"servers": [{"name": "web"}]},
        {"servers": [{"name": "web", "flavor": "small", "vcpus": 2}]},
        {"server": {"name": "web", "flavor": "small", "count": 0}},
        {"server": {"name": "web", "flavor": "small", "colour": "red"}},
        {"server": {"name": "web", "flavor": "smalll"}},
        {"server": {"name": "web", "flavor": "small", "hints": {"group": 5}}},
        {"server": HUGE},
        {"servers": [{"name": "web", "flavor": "small", "count": 1000}] * 11},  # the answer would have many megabytes
    ],
)
def test_wrong_plans_are_refused(admin, body):
    assert admin.post(PATH, body).status_code == 400


def test_a_member_cannot_plan_with_what_belongs_to_others(admin, member):
    admin.post(
        "/flavors",
        {"flavor": {"name": "plan-hidden", "ram": 1, "vcpus": 1, "disk": 1, "os-flavor-access:is_public": False}},
    )
    admin.post("/image/v2/images", {"name": "plan-secret", "visibility": "private"})
    for wanted in ({"flavor": "plan-hidden"}, {"flavor": "small", "image": "plan-secret"}):
        assert planned(admin, {"server": {"name": "web", **wanted}})["fits"]
        refused = member.post(PATH, {"server": {"name": "web", **wanted}})
        assert (refused.status_code, "did you mean plan-" in refused.text) == (400, False)
