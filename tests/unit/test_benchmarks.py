# SPDX-License-Identifier: Apache-2.0
"""The harness itself, on workloads small enough to say nothing about speed."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from benchmarks import inputs, measuring, suite, trace_bench
from benchmarks.fleets import fleet_document, make_fleet
from benchmarks.inputs import DATA, make_requests, scheduler_options
from benchmarks.plain_loops import PlainLoops
from benchmarks.stopwatch import percentile
from benchmarks.workload import read_workload
from tests.parity import plain

from roost import BadInput, Flavor, RequestSpec, Scheduler
from roost.scheduler.options import DEFAULT_FILTERS

HOSTS = {
    "count": 50,
    "zones": ["az1", "az2"],
    "groups": [
        {"share": 8, "like": {"vcpus_total": 32, "total_usable_ram_mb": 65536}, "used": [0.0, 0.9]},
        {"share": 1, "like": {"vcpus_total": 32, "total_usable_ram_mb": 65536}, "used": 1.0},
        {"share": 1, "like": {"vcpus_total": 32, "total_usable_ram_mb": 65536, "service": {"up": False}}},
    ],
}
TINY = {
    "description": "a workload for tests",
    "kind": "cold",
    "hosts": HOSTS,
    "filters": ["AvailabilityZoneFilter", "RamFilter", "CoreFilter", "ComputeFilter"],
    "weighers": ["RAMWeigher", "CPUWeigher"],
    "requests": {"count": 20, "sizes": "azure_v1_sizes.csv", "compare": 20},
    "expectations": [{"measure": "median_us", "at_most": 1e9}],
}
STREAM = TINY | {"kind": "stream", "requests": TINY["requests"] | {"compare": 5, "repeats": 2}}
HEADROOM = TINY | {
    "kind": "headroom",
    "requests": {"count": 5, "sizes": "pinned_8_vcpu.csv", "repeats": 2},
    "expectations": [{"measure": "fits", "at_least": 1}, {"measure": "ratio_to_stream", "at_least": 0}],
}
MEMORY = {"description": "memory", "kind": "memory", "hosts": HOSTS}
TRACE = {
    "description": "machines come and go",
    "kind": "trace",
    "hosts": HOSTS,
    "requests": {"count": 8, "events": "events.csv.gz", "compare": 8, "repeats": 2},
}
EVENTS = """time_s,op,vm_id,vcpus,memory_mb
0,create,0,2,2048
0,create,1,999,2048
0,create,2,1,1024
300,delete,0,,
300,delete,1,,
300,create,3,4,4096
600,delete,3,,
600,create,4,2,2048
900,delete,4,,
"""
"""Machine 1 fits nowhere."""
GROUP = TINY | {
    "kind": "group",
    "filters": ["ServerGroupAntiAffinityFilter"],
    "requests": {"count": 12, "sizes": "azure_v1_sizes.csv", "group": "anti-affinity", "repeats": 2},
    "expectations": [{"measure": "hosts_used", "at_least": 12}, {"measure": "members_per_second", "at_least": 0}],
}
STREAM_KEYS = {
    "name",
    "hosts",
    "requests",
    "median_us",
    "p99_us",
    "plain_loop_median_us",
    "plain_loop_requests",
    "ratio_to_plain_loops",
    "same_choice",
    "core_share",
    "expectations",
    "per_second",
    "placed",
}
COLD_KEYS = STREAM_KEYS - {"per_second", "placed"} | {"weighing_us"}


@pytest.fixture
def write(tmp_path):
    def write_workload(name="tiny", **fields):
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(fields), encoding="utf-8")
        return path

    return write_workload


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """The events above, where the files of requests are looked for."""
    (tmp_path / "events.csv.gz").write_bytes(gzip.compress(EVENTS.encode()))
    monkeypatch.setattr(inputs, "DATA", tmp_path)


@pytest.fixture
def run(tmp_path, capsys):
    """Runs the command on the workloads written so far: exit status and one record per line."""

    def run_suite(*arguments):
        status = suite.main(arguments, folder=tmp_path)
        printed = capsys.readouterr()
        assert printed.err == "", "nothing but results where no terminal is"
        return status, [json.loads(line) for line in printed.out.splitlines()]

    return run_suite


def test_a_cold_workload_gives_the_promised_keys_and_the_plain_loops_choice(write, run):
    write(**TINY)
    status, [result] = run()
    assert status == 0
    assert result.keys() == COLD_KEYS
    assert (result["name"], result["hosts"], result["requests"]) == ("tiny", 50, 20)
    assert (result["plain_loop_requests"], result["same_choice"]) == (20, True)
    [expectation] = result["expectations"]
    assert expectation.keys() == {"expectation", "bound", "measured", "ok"}
    assert expectation["measured"] == result["median_us"]


def test_headroom_is_measured_beside_a_stream(write, run):
    write(**HEADROOM)
    status, [result] = run()
    assert status == 0
    assert len(result["ratio_to_stream_of_runs"]) == 2
    workload = read_workload(write(**HEADROOM))
    scheduler = Scheduler(make_fleet(workload), scheduler_options(workload))
    assert result["fits"] == scheduler.headroom(RequestSpec(Flavor(8, 16384))).fits


def test_a_stream_also_gives_decisions_per_second_and_compares_its_beginning(write, run):
    write(**STREAM)
    status, [result] = run()
    assert status == 0
    assert result.keys() == STREAM_KEYS
    assert (result["plain_loop_requests"], result["same_choice"]) == (5, True)


def test_requests_for_a_zone_are_compared_too(write, run):
    write(**TINY | {"requests": TINY["requests"] | {"zone": "az2"}})
    _, [result] = run()
    assert result["same_choice"] is True


def test_requests_that_fit_nowhere_are_the_same_choice_too(write, run):
    write(**TINY | {"hosts": {"count": 3, "groups": [{"share": 1, "like": {"vcpus_total": 1}}]}})
    status, [result] = run()
    assert (status, result["same_choice"]) == (0, True)


@pytest.fixture
def few_memory_runs(monkeypatch):
    monkeypatch.setattr(measuring, "MEMORY_RUNS", 2)


def test_memory_is_measured_in_a_process_of_its_own(write, run, few_memory_runs):
    write(**MEMORY)
    _, [result] = run()
    assert result.keys() == {"name", "hosts", "requests", "bytes_per_host", "megabytes", "expectations"}


def test_memory_with_requests_is_that_of_a_scheduler_which_placed_them(write, run, few_memory_runs):
    write(**MEMORY | {"requests": {"count": 20, "sizes": "azure_v1_sizes.csv"}})
    status, [result] = run()
    assert (status, result["requests"]) == (0, 20)
    assert result["megabytes"] == round(50 * result["bytes_per_host"] / 1e6, 1)


def test_a_trace_counts_what_came_what_went_and_what_was_refused(write, run, trace):
    write(**TRACE)
    status, [result] = run()
    assert status == 0
    assert result.keys() == {
        "name",
        "hosts",
        "requests",
        "deletes",
        "refused",
        "median_us",
        "p99_us",
        "worst_us",
        "release_us",
        "us_per_decision",
        "per_second",
        "same_choice",
        "core_share",
        "expectations",
    }
    assert (result["requests"], result["deletes"], result["refused"]) == (5, 3, 1)
    assert result["per_second"] == pytest.approx(1e6 / result["us_per_decision"], rel=0.01)


def test_other_hosts_than_without_kept_answers_show_in_the_exit_status(write, run, trace, monkeypatch):
    follow, placed = trace_bench.follow, iter(range(100))
    monkeypatch.setattr(trace_bench, "follow", lambda *steps: follow(*steps)._replace(placed=[next(placed)]))
    write(**TRACE)
    status, [result] = run()
    assert (status, result["same_choice"]) == (1, False)


def test_a_trace_that_is_too_short_is_refused(write, trace, tmp_path, capsys):
    write(**TRACE | {"requests": TRACE["requests"] | {"count": 10}})
    assert suite.main([], folder=tmp_path) == 2
    assert "events.csv.gz has 9 events (make requests.count smaller)" in capsys.readouterr().err


def test_members_of_a_group_go_to_hosts_of_their_own(write, run):
    write(**GROUP)
    status, [result] = run()
    assert (status, result["hosts_used"]) == (0, 12)
    assert "per_second" not in result


def test_members_that_stay_together_use_one_host(write, run):
    together = {"count": 3, "sizes": "azure_v1_sizes.csv", "group": "affinity", "repeats": 1}
    roomy = {"count": 5, "groups": [{"share": 1, "like": {"vcpus_total": 99, "total_usable_ram_mb": 999999}}]}
    write(**GROUP | {"filters": ["ServerGroupAffinityFilter"], "requests": together, "hosts": roomy})
    _, [result] = run()
    assert result["hosts_used"] == 1


def test_a_stream_of_requests_that_fit_nowhere_places_none(write, run):
    write(**STREAM | {"requests": {"count": 5, "sizes": "largest_host.csv", "repeats": 1}})
    _, [result] = run()
    assert result["placed"] == 0


def test_blockers_are_timed_beside_a_scan_of_the_same_request(write, run):
    requests = {"count": 3, "sizes": "largest_host.csv"}
    write(**TINY | {"kind": "explain", "requests": requests, "expectations": []})
    status, [result] = run()
    assert status == 0
    assert result["blocked_hosts"] == 50
    assert min(result[name] for name in ("scan_us", "blockers_us", "blockers_to_scan", "explain_us")) > 0


def test_rules_that_are_not_named_are_the_schedulers_defaults(write):
    named = read_workload(write(**TINY))
    bare = read_workload(write(**{key: TINY[key] for key in TINY.keys() - {"filters", "weighers"}}))
    assert scheduler_options(named)["filter_scheduler"]["weight_classes"] == ["RAMWeigher", "CPUWeigher"]
    pipeline = Scheduler(make_fleet(bare), scheduler_options(bare)).pipeline
    assert tuple(each.name for each in pipeline.rules.filters) == DEFAULT_FILTERS
    assert len(pipeline.rules.weighers) >= 13


def test_growth_comes_last_and_only_with_all_sizes(write, run):
    for name, count in (("small", 20), ("large", 50)):
        write(name, **TINY | {"grows": True, "hosts": HOSTS | {"count": count}})
    _, results = run()
    assert [each["name"] for each in results] == ["large", "small", "growth"]
    found = results[-1]["cold"]
    assert (found["hosts"], found.keys()) == ([20, 50], {"hosts", "median_us", "exponent"})
    _, results = run("small")
    assert [each["name"] for each in results] == ["small"]


def test_without_comparison_there_is_no_ratio(write, run):
    write(**TINY | {"requests": TINY["requests"] | {"compare": 0}})
    _, [result] = run()
    assert "ratio_to_plain_loops" not in result
    assert "same_choice" not in result


def test_a_missed_expectation_shows_in_the_exit_status_after_all_lines(write, run):
    write("a", **TINY | {"expectations": [{"measure": "median_us", "at_most": 0}]})
    write("b", **TINY)
    status, results = run()
    assert status == 1
    assert [[each["ok"] for each in result["expectations"]] for result in results] == [[False], [True]]


def test_another_choice_than_the_plain_loops_shows_in_the_exit_status(write, run, monkeypatch):
    monkeypatch.setattr(PlainLoops, "place", lambda loops, spec: [("node-000001-az1-0", "elsewhere")])
    monkeypatch.setattr(PlainLoops, "restore", lambda loops, chosen: None)
    write(**TINY)
    status, [result] = run()
    assert (status, result["same_choice"]) == (1, False)


def test_a_workload_brings_along_the_one_it_is_compared_with(write, run):
    write("large", **TINY | {"expectations": [{"measure": "median_us", "at_most": 1e9, "times": "small"}]})
    write("small", **TINY)
    _, results = run("large")
    assert [each["name"] for each in results] == ["small", "large"]
    [expectation] = results[1]["expectations"]
    assert expectation["expectation"] == "median_us <= 1e+09 x small"
    assert expectation["measured"] == round(results[1]["median_us"] / results[0]["median_us"], 2)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"filtres": []}, "tiny.yaml: unknown field 'filtres' (did you mean filters?)"),
        ({"path": "x"}, "tiny.yaml: unknown field 'path'"),
        ({"hosts": HOSTS | {"zone": "az1"}}, "tiny.yaml: hosts: unknown field 'zone' (did you mean zones?)"),
        (
            {"hosts": {"count": 1, "groups": [{"share": 1, "like": {"vcpu_total": 8}}]}},
            "unknown field 'vcpu_total' (did you mean vcpus_total?)",
        ),
        ({"requests": {"count": 1, "sizes": "x.csv", "zones": ["az1"]}}, "requests: unknown field 'zones'"),
        ({"requests": None}, "requests: a workload of kind cold needs them"),
        ({"requests": {"count": 1}}, "requests.sizes: there are none, or events too"),
        ({"requests": {"count": 1, "events": "x.gz"}}, "requests.events: a trace has events, and nothing else has"),
        ({"kind": "trace"}, "requests.events: a trace has events, and nothing else has"),
        ({"kind": "group"}, "requests.group: a workload of kind group has one, and no other"),
        ({"kind": "memory"}, "requests.compare: a workload of kind memory is not compared"),
        ({"grows": "yes"}, "grows: 'yes' is not a yes or no"),
        ({"kind": "lukewarm"}, "kind: 'lukewarm' is no kind"),
        ({"expectations": [{"measure": "median_us"}]}, "median_us has no bound, or two"),
        (
            {"expectations": [{"measure": "per_second", "at_least": 1}]},
            "expectations[0].measure: per_second is not measured here",
        ),
    ],
)
def test_a_workload_that_says_something_odd_is_refused(write, change, complaint):
    fields = {name: value for name, value in (TINY | change).items() if value is not None}
    with pytest.raises(BadInput) as refused:
        read_workload(write(**fields))
    assert complaint in str(refused.value)


def test_a_filter_without_a_plain_loop_cannot_be_compared(write, tmp_path, capsys, monkeypatch):
    monkeypatch.delitem(plain.FILTERS, "RamFilter")
    write(**TINY)
    assert suite.main([], folder=tmp_path) == 2
    assert "RamFilter: there is no plain loop of it" in capsys.readouterr().err


def test_an_unknown_workload_is_refused_with_the_nearest_name(write, tmp_path, capsys):
    write(**TINY)
    assert suite.main(["tinny"], folder=tmp_path) == 2
    assert "there is no workload tinny (did you mean tiny?)" in capsys.readouterr().err


def test_workloads_that_refer_to_one_another_are_refused(write, tmp_path, capsys):
    write(**TINY | {"expectations": [{"measure": "median_us", "at_most": 1, "times": "tiny"}]})
    assert suite.main([], folder=tmp_path) == 2
    assert "the expectations of tiny go round in a circle" in capsys.readouterr().err


def test_the_same_seed_gives_the_same_hosts_and_requests(write):
    workload, other = read_workload(write(**TINY)), read_workload(write("other", **TINY | {"seed": 2}))
    free, again, different = (make_fleet(each).table.free_ram_mb.tolist() for each in (workload, workload, other))
    assert free == again != different
    assert make_requests(workload.requests, 1) == make_requests(workload.requests, 1)
    assert make_requests(workload.requests, 1) != make_requests(workload.requests, 2)


def test_the_fleet_has_as_many_hosts_as_described_in_the_zones_described(write):
    fleet = make_fleet(read_workload(write(**TINY)))
    assert len(fleet.table) == 50
    assert fleet.zones() == {"az1", "az2"}
    assert (~fleet.table.is_up).sum() == 5
    assert (fleet.table.free_ram_mb == 0).sum() == 5


def test_hosts_of_a_group_are_one_entry_with_a_range_of_names(write):
    group = [{"share": 1, "like": {"vcpus_total": 8}, "used": [0.0, 0.5]}]
    document = fleet_document(read_workload(write(**TINY | {"hosts": {"count": 1000, "groups": group}})))
    assert document["hosts"] == [{"host": "node-[000001-001000]-any-0", "vcpus_total": 8}]


def test_percentile_is_one_of_the_numbers():
    assert percentile(list(range(1, 201)), 99) == 198
    assert percentile([7.0], 99) == 7.0


def test_the_sizes_are_those_of_the_trace():
    lines = (DATA / "azure_v1_sizes.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "vcpus,memory_mb,vms"
    assert sum(int(line.split(",")[2]) for line in lines[1:]) == 259_159


def test_every_workload_we_ship_can_be_read_and_is_listed():
    script = Path(suite.__file__).parent / "run.py"
    listed = subprocess.run([sys.executable, script, "--list"], check=True, capture_output=True, text=True)
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert sorted(names) == sorted(path.stem for path in suite.WORKLOADS.glob("*.yaml"))
