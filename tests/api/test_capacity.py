# SPDX-License-Identifier: Apache-2.0
"""/roost/v1/capacity: how many more servers fit."""

import pytest
from tests.api.roost_form import check_form

from roost.api.bounded_work import Overloaded
from roost.api.roost import questions

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


def pages(client, query=""):
    """All pages, as the links go on."""
    path = f"{PATH}?{query}"
    while path:
        answer = client.get(path)
        check_form(client, PATH, answer)
        page = answer.json()
        yield page["capacity"]
        links = page.get("capacity_links", [])
        assert [each["rel"] for each in links] == ["next"] * len(links)
        path = links[0]["href"].removeprefix(str(client.http.base_url).rstrip("/")) if links else None


def names_of(found):
    return [[each["flavor"] for each in page] for page in found]


def test_flavors_come_in_pages_by_name(admin, cloud):
    """D45: an answer about all flavors of a large cloud took too long."""
    flavors = sorted(each["name"] for each in cloud.dev.client.list_flavors())
    assert names_of(pages(admin, "limit=2")) == [flavors[at : at + 2] for at in range(0, len(flavors), 2)]
    assert names_of(pages(admin)) == [flavors]
    assert names_of(pages(admin, f"marker={flavors[0]}x")) == [flavors[1:]]


def test_the_links_keep_what_was_asked(admin):
    found = list(pages(admin, "limit=2&most=2&by=gpu"))
    assert len(found) > 2
    assert {each["by"] for page in found for each in page} == {"gpu"}
    assert {each["fits"] for page in found for each in page} <= {0, 1, 2}


@pytest.mark.parametrize("bound", ["PAGE_SECONDS", "MOST_ENTRIES"])
def test_a_page_ends_where_it_took_long_or_is_long_and_the_next_goes_on(admin, cloud, monkeypatch, bound):
    """D45: such a page has one flavor at least, so that all of them come."""
    monkeypatch.setattr(questions, bound, -1)
    flavors = sorted(each["name"] for each in cloud.dev.client.list_flavors())
    assert names_of(pages(admin)) == [[each] for each in flavors]


def test_a_page_goes_as_far_as_it_came_in_the_time_of_an_answer(admin, monkeypatch):
    """D45: it was 503, each time."""
    monkeypatch.setattr(questions, "Deadline", lambda clock, seconds: GivesUp(after=2))
    found = admin.get(PATH).json()
    assert len(found["capacity"]) == 2
    assert f"marker={found['capacity'][-1]['flavor']}" in found["capacity_links"][0]["href"]


class GivesUp:
    """A deadline that is over when it was looked at so often."""

    is_over = False

    def __init__(self, after):
        self._left = after

    def check(self):
        if not self._left:
            raise Overloaded("over")
        self._left -= 1


def test_a_flavor_that_cannot_be_counted_has_a_line_on_its_page(admin, cloud):
    made = admin.post("/flavors", {"flavor": {"name": "aa-odd", "ram": 64, "vcpus": 1, "disk": 0, "id": "aa-odd"}})
    assert made.status_code == 200
    specs = {"extra_specs": {"pci_passthrough:alias": "no-such:1"}}
    admin.post("/flavors/aa-odd/os-extra_specs", specs)
    try:
        (first, *_) = pages(admin, "limit=1")
        assert ("no-such" in first[0]["error"], first[0]["flavor"]) == (True, "aa-odd")
        assert admin.get(f"{PATH}?flavor=aa-odd").status_code == 400
    finally:
        admin.delete("/flavors/aa-odd")


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
    monkeypatch.setattr(questions, "MOST_SECONDS", -1.0)
    answer = admin.get(PATH)
    assert answer.status_code == 503
    assert "ask for less" in answer.json()["error"]["message"]


def test_what_is_unknown_is_not_found(admin):
    assert admin.get(f"{PATH}?flavor=smalll").status_code == 404
    assert admin.get(f"{PATH}?by=rackk").status_code == 404


@pytest.mark.parametrize(
    "query", ["most=0", "most=x", "n_plus_one=perhaps", "limit=0", "limit=1001", "flavor=small&marker=a"]
)
def test_wrong_questions_are_refused(admin, query):
    assert admin.get(f"{PATH}?{query}").status_code == 400
