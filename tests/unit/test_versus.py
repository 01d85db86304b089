# SPDX-License-Identifier: Apache-2.0
"""Roost beside nova, without nova: what is asked of it, what is made of its answers, and the page that shows them."""

import copy
import json
import uuid
from itertools import pairwise

import pytest
from benchmarks import versus_nova, versus_report
from benchmarks.versus_clocks import TwoClocks
from benchmarks.versus_figure import draw
from benchmarks.versus_fleet import FILTERS, SERVICE_DOWN_TIME, WEIGHERS, make_hosts, make_request_records
from benchmarks.versus_measuring import compare, figures, make_pipeline, passing_rows, place

from roost.testing.vectors import build_request, build_table


class StandIn:
    """Answers as nova's side does, with Roost's choice among the hosts it is told of."""

    def __init__(self, choose=None):
        self.messages, self.hosts, self.filters = [], [], None
        self.choose_otherwise = choose

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def ask(self, message):
        self.messages.append(message)
        return getattr(self, message["do"])(**message["with"])

    def start(self, service_down_time):
        assert service_down_time == SERVICE_DOWN_TIME
        return {"release": "34.0.0", "python": "3.11.7"}

    def add(self, hosts):
        self.hosts += hosts
        self.table, _ = build_table(self.hosts, SERVICE_DOWN_TIME)
        return {}

    def enable(self, filters, weighers):
        self.filters = next(name for name, rules in FILTERS.items() if rules == filters)
        assert weighers == WEIGHERS
        return {}

    def choose(self, request, passing, consumes):
        table = self.table if consumes else self.table.copy()
        assert passing == passing_rows(table, build_request(request))[: len(passing)]
        chosen = place(make_pipeline(self.filters), table, build_request(request))
        if self.choose_otherwise:
            chosen = self.choose_otherwise(chosen)
        return {"chosen": chosen, "cpu_us": 2_000_000.0, "wall_us": 3_000_000.0}


@pytest.fixture
def run(capsys):
    def run_command(*arguments, nova=None):
        status = versus_nova.main(arguments, lambda: nova or StandIn())
        return status, capsys.readouterr()

    return run_command


def result(hosts=10_000, kind="cold", filters="default", nova_ms=1000.0, roost_ms=1.0, same=5):
    def times(median):
        return {
            "requests": 5,
            "cpu_ms": {"median": median, "p99": 2 * median},
            "wall_ms": {"median": median, "p99": 1},
        }

    return {
        "hosts": hosts,
        "kind": kind,
        "filters": filters,
        "nova": times(nova_ms),
        "roost": times(roost_ms),
        "compared": 5,
        "same": same,
        "differences": [{"request": at, "nova": ["a", "a"], "roost": None} for at in range(5 - same)],
    }


ABOUT = {"nova": "34.0.0", "python": "3.11.7", "machine": "a processor"}


def document_of(*results):
    return versus_report.as_document(ABOUT, results)


def test_the_same_seed_makes_the_same_fleet_and_a_larger_one_begins_with_it():
    hosts = list(make_hosts(50))
    assert hosts == list(make_hosts(50)) == list(make_hosts(60))[:50]
    assert hosts != list(make_hosts(50, seed=8))


def test_the_fleet_has_what_it_is_said_to_have():
    hosts = list(make_hosts(2000))
    assert [each["host"] for each in hosts] == sorted(each["host"] for each in hosts)
    assert {each["hypervisor_type"] for each in hosts} == {"QEMU", "VMware vCenter Server", "ironic"}
    aggregates = {each["name"] for host in hosts for each in host["aggregates"]}
    assert {"az0", "az1", "az2", "tenant", "windows", "large-only", "cpu-counts-twice"} < aggregates
    for share, is_so in [
        (0.15, lambda host: host["free_disk_mb"] == 0),
        (0.03, lambda host: host["service"]["disabled"]),
        (0.03, lambda host: not host["service"]["up"]),
    ]:
        assert sum(map(is_so, hosts)) / len(hosts) == pytest.approx(share, abs=0.02)


def test_every_uuid_is_one_and_no_two_are_the_same():
    running = [each for host in make_hosts(300) for each in host["instances"]]
    asked = [each["instance_uuid"] for each in make_request_records("default", 300)]
    assert len({uuid.UUID(each) for each in running + asked}) == len(running + asked)


@pytest.mark.parametrize("filters", FILTERS)
def test_each_set_of_filters_turns_hosts_away(filters):
    table, _ = build_table(list(make_hosts(500)), SERVICE_DOWN_TIME)
    [record] = make_request_records(filters, 1)
    decision = make_pipeline(filters).place(table, build_request(record), [None], randomness=None, clock=lambda: 0)
    steps = {step.name: step.before - step.after for step in decision.steps if step.stage == "filter"}
    assert tuple(steps) == FILTERS[filters]
    idle = {"ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter", "SameHostFilter", "PciPassthroughFilter"}
    assert {name for name, lost in steps.items() if not lost} <= idle


def test_fourteen_filters_are_fourteen():
    assert len(set(FILTERS["14"])) == 14


def test_hosts_that_are_disabled_or_full_are_not_given_to_nova():
    hosts = list(make_hosts(200))
    table, _ = build_table(hosts, SERVICE_DOWN_TIME)
    [record] = make_request_records("default", 1)
    rows = passing_rows(table, build_request(record))
    given = [hosts[row] for row in rows]
    assert 0 < len(given) < 200
    assert rows == sorted(rows)
    assert not any(each["service"]["disabled"] for each in given)
    assert all(each["free_disk_mb"] >= 20 * 1024 for each in given)
    assert any(not each["service"]["up"] for each in given), "that is for ComputeFilter to find"


def test_both_clocks_are_read_for_each_call():
    watch = TwoClocks()
    assert [watch.time(lambda: "a"), watch.time(lambda: "b")] == ["a", "b"]
    assert len(watch.times_us) == len(watch.walls_us) == 2
    assert sum(watch.walls_us) == pytest.approx(watch.elapsed_us)


def test_figures_are_milliseconds_over_all_runs():
    first, second = TwoClocks(), TwoClocks()
    first.times_us, first.walls_us = [1000.0, 2000.0], [1500.0, 2500.0]
    second.times_us, second.walls_us = [9000.0], [9500.0]
    assert figures([first, second]) == {
        "requests": 3,
        "cpu_ms": {"median": 2.0, "p99": 9.0},
        "wall_ms": {"median": 2.5, "p99": 9.5},
    }


def test_a_different_host_and_no_host_are_differences():
    compared = compare([["a", "a"], ["b", "b"], None], [["a", "a"], ["c", "c"], ["d", "d"]])
    assert (compared["compared"], compared["same"]) == (3, 1)
    assert [each["request"] for each in compared["differences"]] == [1, 2]


def test_the_command_asks_both_and_prints_all_figures(run):
    status, printed = run("--sizes", "30", "--requests", "5", "-f", "json")
    assert (status, printed.err) == (0, "")
    document = json.loads(printed.out)
    assert document.keys() == {
        *("nova", "python", "machine", "filters", "weighers", "results", "expectations", "notes")
    }
    cases = [(each["kind"], each["filters"], each["compared"], each["same"]) for each in document["results"]]
    assert cases == [("cold", "default", 5, 5), ("cold", "14", 5, 5), ("stream", "default", 5, 5)]
    cold, _, stream = document["results"]
    assert cold["nova"] == {
        "requests": 5,
        "cpu_ms": {"median": 2000.0, "p99": 2000.0},
        "wall_ms": {"median": 3000.0, "p99": 3000.0},
    }
    assert (cold["roost"]["requests"], stream["roost"]["requests"]) == (5, 5 * 30)
    assert cold["ratio"]["cpu"] == round(2000 / cold["roost"]["cpu_ms"]["median"], 1)


def test_nova_is_asked_to_consume_in_a_stream_only_and_starts_from_the_same_hosts(run):
    nova = StandIn()
    run("--sizes", "30", "--requests", "5", "--filters", "default", nova=nova)
    assert nova.hosts == list(make_hosts(30))
    consumes = [each["with"]["consumes"] for each in nova.messages if each["do"] == "choose"]
    assert consumes == [False] * 6 + [False] + [True] * 5, "the first of each kind warms up"


def test_another_choice_is_named_and_shows_in_the_exit_status(run):
    status, printed = run("--sizes", "30", "--requests", "5", nova=StandIn(lambda chosen: ["elsewhere", "n1"]))
    assert status == 1
    assert "not ok: the same host for 0 of 15 requests" in printed.out
    assert "differs: 30 hosts, cold, default filters, request 0: nova ['elsewhere', 'n1'], Roost ['cmp" in printed.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sizes", "10,x"], "--sizes: 'x' is no whole number of at least 1"),
        (["--sizes", "0"], "--sizes: '0' is no whole number of at least 1"),
        (["--sizes", "²"], "--sizes: '²' is no whole number of at least 1"),
        (["--requests", "4"], "--requests: '4' is no whole number of at least 5"),
        (["--filters", "defualt"], "--filters: there is no set 'defualt' (did you mean default?)"),
        (["--save", "nowhere"], "--save: there is no folder nowhere"),
        (["--format", "xml"], "argument -f/--format: invalid choice: 'xml'"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(run, arguments, complaint):
    status, printed = run(*arguments)
    assert (status, printed.out) == (2, "")
    assert printed.err.startswith(f"error: {complaint}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(("hosts", "requests"), [(1, 200), (100, 200), (1000, 60), (10_000, 20), (100_000, 5)])
def test_fewer_requests_are_put_to_nova_where_it_has_more_hosts(hosts, requests):
    assert versus_nova.requests_for(hosts) == requests


@pytest.mark.parametrize(("roost_ms", "is_ok"), [(2.0, True), (2.01, False)])
def test_an_expectation_is_met_at_its_bound(roost_ms, is_ok):
    [expectation] = document_of(result(nova_ms=1000.0, roost_ms=roost_ms))["expectations"]
    assert (expectation["at_least"], expectation["ok"]) == (500, is_ok)


def test_nothing_is_expected_of_what_was_not_measured():
    assert document_of(result(hosts=100), result(filters="14"))["expectations"] == []


def test_the_lines_below_the_table_say_what_was_expected_and_what_came():
    document = document_of(result(roost_ms=4.0), result(kind="stream", roost_ms=0.05, same=4))
    assert list(versus_report.verdicts(document)) == [
        "not ok: 10,000 hosts, cold, default filters: 250x by CPU time, at least 500x expected",
        "ok: 10,000 hosts, stream, default filters: 20,000x by CPU time, at least 10,000x expected",
        "not ok: the same host for 9 of 10 requests",
    ]


def test_each_result_has_a_row_for_each_clock():
    cpu, wall = versus_report.rows(document_of(result(nova_ms=1234.5, roost_ms=0.5)))
    assert cpu == ("10,000", "cold, default", "cpu", "1,234", "2,469", "0.500", "1.00", "2,469x", "5/5")
    assert wall == ("", "", "wall", "1,234", "1.00", "0.500", "1.00", "2,469x", "")


def test_the_table_fits_a_terminal_of_80_columns(capsys):
    document = document_of(result(hosts=100_000, kind="stream", nova_ms=10_000.0, roost_ms=0.05))
    versus_report.print_report(document)
    table = capsys.readouterr().out.partition("ok: ")[0]
    assert "…" not in table
    assert "100,000 stream, default cpu" in table


def test_numbers_figure_and_page_are_saved_together(tmp_path):
    document = document_of(result())
    (tmp_path / "versus-nova.md").write_text(
        "before\n<!-- begin: written from versus.json -->\nthe table of last year\n<!-- end -->\nafter\n",
        encoding="utf-8",
    )
    versus_report.save(document, tmp_path)
    assert json.loads((tmp_path / "versus.json").read_text(encoding="utf-8")) == document
    assert (tmp_path / "versus.svg").read_text(encoding="utf-8") == draw(document)
    page = (tmp_path / "versus-nova.md").read_text(encoding="utf-8")
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "last year" not in page
    assert versus_report.as_markdown(document) in page
    assert versus_report.with_table(page, document) == page, "writing it again changes nothing"


def test_the_figure_has_a_point_per_median_and_higher_is_slower():
    slow, fast = draw(document_of(result(nova_ms=900.0))), draw(document_of(result(nova_ms=90.0, hosts=1000)))
    assert slow.count("<circle") == fast.count("<circle") == 2
    both = draw(document_of(result(hosts=1000, nova_ms=100.0), result(nova_ms=1000.0)))
    line = next(each for each in both.splitlines() if each.startswith("<polyline"))
    (x1, y1), (x2, y2) = (map(float, spot.split(",")) for spot in line.split('"')[1].split())
    assert x1 < x2
    assert y1 > y2


def test_names_in_the_figure_do_not_lie_on_one_another():
    document = document_of(result(nova_ms=1.0), result(kind="stream", nova_ms=1.0))
    heights = [
        float(line.split('y="')[1].split('"')[0])
        for line in draw(document).splitlines()
        if line.startswith("<text") and ("Roost" in line or ">nova<" in line)
    ]
    assert len(heights) == 3
    assert all(later - earlier >= 18 for earlier, later in pairwise(heights))


def test_the_page_and_the_figure_show_the_numbers_beside_them():
    numbers = (versus_report.DOCS / versus_report.NUMBERS).read_text(encoding="utf-8")
    document = json.loads(numbers)
    page = (versus_report.DOCS / versus_report.PAGE).read_text(encoding="utf-8")
    assert versus_report.with_table(page, document) == page
    assert versus_report.as_markdown(document) in page
    assert draw(document) == (versus_report.DOCS / versus_report.FIGURE).read_text(encoding="utf-8")
    again = versus_report.as_document(
        {name: document[name] for name in ("nova", "python", "machine", "filters", "weighers")},
        copy.deepcopy(document["results"]),
    )
    assert again["expectations"] == document["expectations"]
    assert versus_report.is_same(document)
