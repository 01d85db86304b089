# SPDX-License-Identifier: Apache-2.0
"""/roost/v1/servers: servers as conductors describe them, and what changes would do."""

import pytest
from sqlalchemy import func, select
from tests.api.placed import client_of, create
from tests.api.roost_form import check_form
from tests.api.servers import manager_of
from tests.api.statements import statements_of

from roost.store.schema.fleet import allocations
from roost.store.schema.servers import migrations, servers

PATH = "/roost/v1/servers"


@pytest.fixture(scope="module")
def ours(cloud):
    """The ids of three servers of one project."""
    made = [create(cloud, "ours") for _ in range(3)]
    yield made
    for each in made:
        client_of(cloud, "ours").delete_server(each)


def test_an_administrator_sees_what_a_conductor_says(admin, cloud, ours):
    answer = admin.get(f"{PATH}/{ours[0]}")
    check_form(admin, f"{PATH}/{{server_id}}", answer)
    assert answer.json() == cloud.dev.client.get_server(ours[0])


def test_a_server_is_found_by_its_name(member, ours):
    name = member.get(f"{PATH}/{ours[0]}").json()["name"]
    assert member.get(f"{PATH}/{name}").json()["id"] == ours[0]


def test_a_member_sees_no_host_and_none_of_other_projects(cloud, member, ours):
    assert member.get(f"{PATH}/{ours[0]}").json()["host"] is None
    assert {each["host"] for each in member.get(PATH).json()["servers"]} == {None}
    other = cloud.client("other")
    assert other.get(f"{PATH}/{ours[0]}").status_code == 404
    assert not {each["id"] for each in other.get(PATH).json()["servers"]} & set(ours)


def test_filters_and_pages(admin, cloud, ours):
    project = cloud.projects["ours"]
    page = admin.get(f"{PATH}?project_id={project}&status=ACTIVE&limit=2")
    check_form(admin, PATH, page)
    pages = [page.json()]
    while "servers_links" in pages[-1]:
        following = pages[-1]["servers_links"][0]["href"]
        pages.append(admin.http.get(following, headers=admin.headers).json())
    assert len(pages) > 1
    seen = [each["id"] for page in pages for each in page["servers"]]
    assert seen == sorted(seen)
    assert set(ours) <= set(seen)
    host = cloud.dev.client.get_server(ours[0])["host"]
    assert ours[0] in [each["id"] for each in admin.get(f"{PATH}?host={host}").json()["servers"]]


def test_the_number_of_statements_does_not_grow_with_the_servers(admin, cloud, ours):
    def sent(limit):
        return statements_of(cloud, lambda: admin.get(f"{PATH}?status=ACTIVE&limit={limit}"))

    assert sent(3) == sent(1)


@pytest.mark.parametrize("query", ["status=GOOD", "limit=0", "limit=1001", "marker=none", "name="])
def test_wrong_questions_are_refused(admin, query):
    assert admin.get(f"{PATH}?{query}").status_code == 400


def test_a_member_is_told_that_a_filter_is_for_administrators(member, cloud, ours):
    """D29: the filter was taken and ignored, so that servers of any host were listed."""
    for query in ("host=a-01", f"project_id={cloud.projects['theirs']}"):
        assert member.get(f"{PATH}?{query}").status_code == 403
    own = member.get(f"{PATH}?project_id={cloud.projects['ours']}").json()["servers"]
    assert set(ours) <= {each["id"] for each in own}


# --- plans -------------------------------------------------------------------------------------------


def rows(cloud):
    with cloud.dev.engine.connect() as connection:
        counts = [connection.scalar(select(func.count()).select_from(each)) for each in (allocations, migrations)]
        return counts, connection.execute(select(servers.c.uuid, servers.c.task_state)).all()


@pytest.mark.parametrize(
    ("action", "step"),
    [
        ({"resize": {"flavorRef": "web"}}, "resize"),
        ({"migrate": None}, "migration"),
        ({"os-stop": None}, "stop"),
        ({"delete": None}, "delete"),
    ],
    ids=str,
)
def test_an_action_is_planned_and_not_made(admin, cloud, ours, action, step):
    before = rows(cloud)
    answer = admin.post(f"{PATH}/{ours[0]}/plan", action)
    check_form(admin, f"{PATH}/{{server_id}}/plan", answer, "post")
    (planned,) = answer.json()["plan"]
    assert (answer.json()["fits"], planned["server"], planned["action"]) == (True, ours[0], step)
    assert rows(cloud) == before


def test_why_nothing_fits_is_said_to_administrators(admin, member, ours):
    flavor = admin.post("/flavors", {"flavor": {"name": "own-huge", "vcpus": 1, "ram": 10**9, "disk": 0}})
    resize = {"resize": {"flavorRef": flavor.json()["flavor"]["id"]}}
    found = admin.post(f"{PATH}/{ours[0]}/plan", resize).json()
    assert (found["fits"], found["plan"]) == (False, [])
    assert "of 10 hosts fit" in found["summary"]
    assert "hosts fit" not in member.post(f"{PATH}/{ours[0]}/plan", resize).json()["summary"]


def test_who_may_move_a_server_and_is_no_administrator_is_not_told_of_hosts(cloud, ours):
    manager = manager_of(cloud, "ours")
    (step,) = manager.post(f"{PATH}/{ours[0]}/plan", {"migrate": None}).json()["plan"]
    assert (step["server"], step["host"], step["summary"]) == (ours[0], None, "")


def test_plans_need_the_rights_of_the_actions(cloud, ours):
    def status(user, action):
        return cloud.client(user).post(f"{PATH}/{ours[0]}/plan", action).status_code

    assert status("member", {"os-stop": None}) == 200
    assert status("member", {"migrate": None}) == 403
    assert status("reader", {"delete": None}) == 403
    assert status("other", {"os-stop": None}) == 404


@pytest.mark.parametrize("action", [{}, {"explode": None}, {"delete": None, "os-stop": None}, {"resize": None}])
def test_an_action_that_does_not_exist_is_refused(admin, ours, action):
    assert admin.post(f"{PATH}/{ours[0]}/plan", action).status_code == 400


def test_flags_of_a_host_are_planned_and_not_set(admin, member, cloud):
    path = "/roost/v1/hosts/a-02/plan"
    answer = admin.post(path, {"disabled": True, "reason": "new memory"})
    check_form(admin, "/roost/v1/hosts/{host}/plan", answer, "post")
    (step,) = answer.json()["plan"]
    assert (step["host"], step["summary"]) == ("a-02", "disabled: True, reason: new memory")
    assert cloud.dev.client.get_host("a-02")["status"] == "enabled"
    assert member.post(path, {"disabled": True}).status_code == 403
    assert admin.post("/roost/v1/hosts/nowhere/plan", {"disabled": True}).status_code == 404


def test_a_reason_without_disabling_is_refused_by_the_plan_as_by_the_change(admin):
    """D29: the plan took it; what it stands for refused it."""
    answer = admin.post("/roost/v1/hosts/a-01/plan", {"reason": "new memory"})
    assert (answer.status_code, "not disabled" in answer.text) == (400, True)
    assert admin.post("/roost/v1/hosts/a-01/plan", {"reason": "new memory", "disabled": True}).status_code == 200
