# SPDX-License-Identifier: Apache-2.0
"""The harness itself, on workloads small enough to say nothing about speed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from benchmarks import suite
from benchmarks.inputs import DATA, fleet_document, make_requests, share_evenly, split
from benchmarks.plain_loops import PlainLoops
from benchmarks.stopwatch import percentile
from benchmarks.workload import HostGroup, read_workload
from tests.parity import plain

from roost import BadInput, Fleet

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
MEMORY = {"description": "memory", "kind": "memory", "hosts": HOSTS}
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
}
COLD_KEYS = STREAM_KEYS - {"per_second"} | {"weighing_us"}


@pytest.fixture
def write(tmp_path):
    def write_workload(name="tiny", **fields):
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(fields), encoding="utf-8")
        return path

    return write_workload


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


def test_memory_is_measured_in_a_process_of_its_own(write, run):
    write(**MEMORY)
    _, [result] = run()
    assert result.keys() == {"name", "hosts", "requests", "bytes_per_host", "expectations"}


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
    monkeypatch.setattr(PlainLoops, "put_back", lambda loops, chosen: None)
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
    assert fleet_document(workload) == fleet_document(workload) != fleet_document(other)
    assert make_requests(workload.requests, 1) == make_requests(workload.requests, 1)
    assert make_requests(workload.requests, 1) != make_requests(workload.requests, 2)


def test_the_fleet_has_as_many_hosts_as_described_in_the_zones_described(write):
    fleet = Fleet.load(fleet_document(read_workload(write(**TINY))))
    assert len(fleet.table) == 50
    assert fleet.zones() == {"az1", "az2"}
    assert (~fleet.table.is_up).sum() == 5
    assert (fleet.table.free_ram_mb == 0).sum() == 5


def test_equal_hosts_are_one_entry_with_a_range_of_names(write):
    equal = [{"share": 1, "like": {"vcpus_total": 8}, "used": 0.5}]
    document = fleet_document(read_workload(write(**TINY | {"hosts": {"count": 1000, "groups": equal}})))
    [entry] = document["hosts"]
    assert (entry["host"], entry["vcpus_used"]) == ("node-[000001-001000]-any-0", 16)


@pytest.mark.parametrize("shares", [[1], [50, 30, 20], [1, 1, 1], [0.001, 99]])
def test_parts_by_share_add_up(shares):
    assert sum(split(1001, [HostGroup(share, {}) for share in shares])) == 1001


def test_zones_share_hosts_evenly():
    assert share_evenly(8, 3) == [3, 3, 2]


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
