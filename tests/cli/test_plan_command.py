# SPDX-License-Identifier: Apache-2.0
"""`roost plan`: a file of requests, each placed with what the earlier ones took."""

import json

import pytest
from tests.unit.sources.snapshots import UUID, snapshot

SMALL = {"vcpus": 1, "ram": 512}


@pytest.fixture
def plan(roost, fleet, tmp_path):
    """`roost plan` on the small fleet, of requests or of the text of a file."""

    def run(requests, *arguments, name="plan.yaml"):
        (tmp_path / name).write_text(requests if isinstance(requests, str) else json.dumps(requests))
        return roost("plan", name, "--fleet", fleet, *arguments)

    return run


def hosts_of(done):
    return {each["name"]: each["hosts"] for each in done.record["requests"]}


def test_each_request_finds_what_the_earlier_ones_left(plan):
    most = {"vcpus": 32, "ram": 65536}
    done = plan([{"name": "one", **most}, {"name": "two", **most}, {"name": "three", **SMALL}], "-f", "json")
    assert done.code == 1
    assert done.record["fits"] is False
    assert [each["fits"] for each in done.record["requests"]] == [True, False, True]
    assert hosts_of(done) == {"one": ["big"], "two": [], "three": [hosts_of(done)["three"][0]]}
    assert hosts_of(done)["three"] != ["big"]
    steps = done.record["requests"][1]["decision"]["steps"]
    assert sum(step["before"] - step["after"] for step in steps) == 5


def test_all_of_a_request_fit_or_none(plan):
    done = plan([{"name": "web", "vcpus": 8, "ram": 9000, "count": 12}, {"name": "few", **SMALL}], "-f", "json")
    assert hosts_of(done)["web"] == []
    assert len(hosts_of(done)["few"]) == 1


def test_the_table_says_where_and_why_not(plan):
    done = plan([{"name": "web", "flavor": "small", "count": 2}, {"name": "huge", "flavor": "huge"}])
    assert done.code == 1
    assert "big (2)" in done.out
    assert "0 of 5 hosts fit: " in done.out
    assert "1 of 2 requests fit: 2 of 3 instances; nothing was changed" in done.out
    fits = plan([{"name": "web", "flavor": "small"}])
    assert fits.code == 0
    assert "Why not" not in fits.out


def test_everything_that_a_request_may_have_is_heeded(plan):
    wanted = [
        {"name": "zone", **SMALL, "availability_zone": "north"},
        {"name": "host", **SMALL, "host": "node-3"},
        {"name": "force", **SMALL, "force_hosts": ["node-4"]},
        {"name": "ignore", **SMALL, "ignore_hosts": ["big"], "disk": 10, "project": "blue"},
        {"name": "image", **SMALL, "image": "debian"},
        {"name": "apart", **SMALL, "group": "apart", "count": 5},
        {"name": "none", **SMALL, "group": "apart"},
    ]
    found = hosts_of(plan(wanted, "-f", "json"))
    assert found["zone"][0] in ("node-1", "node-2")
    assert (found["host"], found["force"]) == (["node-3"], ["node-4"])
    assert found["ignore"][0] != "big"
    assert found["image"] == [], "no host says that it can run x86_64"
    assert sorted(found["apart"]) == ["big", "node-1", "node-2", "node-3", "node-4"]
    assert found["none"] == []


def test_a_hint_names_servers_of_the_snapshot(roost, tmp_path):
    (tmp_path / "x.snap").write_bytes(
        snapshot(options={"filter_scheduler": {"enabled_filters": ["SameHostFilter"]}}).to_bytes()
    )
    (tmp_path / "plan.json").write_text(json.dumps([{"name": "near", **SMALL, "hints": {"same_host": UUID}}]))
    assert hosts_of(roost("plan", "plan.json", "--from", "x.snap", "-f", "json")) == {"near": ["b"]}


def test_the_live_cloud_is_asked_for_a_snapshot_alone(cloud, tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps({"requests": [{"name": "web", "flavor": "small", "count": 3}]}))
    assert len(hosts_of(cloud("plan", "plan.json", "-f", "json"))["web"]) == 3
    assert [name for name, _ in cloud.conductor.calls] == ["get_snapshot"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("plan.yaml: there is no request in it",)),
        ("[]", ("plan.yaml: there is no request in it",)),
        ("requests:", ("plan.yaml: there is no request in it",)),
        ("web: 1", ("plan.yaml: unknown field 'web'", "write requests:")),
        ("requests: 1", ("plan.yaml, line 1: requests: 1 is not a list",)),
        ("- web\n", ("plan.yaml, line 1: [0]",)),
        ("- name: web\n  flavr: small\n", ("plan.yaml, line 2: [0]: unknown field 'flavr'", "did you mean flavor?")),
        ("- name: web\n  flavor: small\n  count: 0\n", ("plan.yaml, line 3: [0].count: 0",)),
        ("- flavor: small\n", ("plan.yaml, line 1: [0].name", "each request has a name")),
        ("- name: web\n", ("plan.yaml, line 1: [0]: the size of the instance is missing",)),
        ("- {name: web, flavor: small, ram: 1}\n", ("plan.yaml, line 1: [0].ram: and flavor contradict",)),
        ("- {name: a, flavor: small}\n- {name: b, flavor: smal}", ("plan.yaml, line 2: request b", "mean small?")),
        (
            "requests:\n- {name: b, vcpus: 1, ram: 1, host: big1}",
            ("plan.yaml, line 2: request b", "did you mean big?"),
        ),
        ("- {name: b, flavor: small, availability_zone: nroth}", ("unknown availability zone 'nroth'", "north")),
        ("- {name: b, flavor: small, group: aprt}", ("unknown server group", "apart")),
        ("- {name: b, flavor: small, image: debain}", ("unknown image", "debian")),
        ("- {name: b, flavor: [", ("plan.yaml, line 2: not YAML",)),
    ],
)
def test_wrong_input_is_one_line_with_its_place(plan, text, words):
    plan(text).assert_refused(*words)


def test_nothing_is_placed_before_all_names_are_known(plan):
    plan("- {name: a, flavor: small}\n- {name: b, flavor: smal}", "-f", "json").assert_refused("request b")
