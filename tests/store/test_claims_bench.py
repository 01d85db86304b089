# SPDX-License-Identifier: Apache-2.0
"""The benchmark of durable claims, on a workload too small to say anything about speed."""

import os

import pytest
import yaml
from benchmarks import claims_bench, suite
from benchmarks.workload import read_workload

from roost import BadInput
from roost.trial import private_servers

TINY = {
    "description": "a workload for tests",
    "kind": "claims",
    "hosts": {
        "count": 30,
        "zones": ["az1", "az2"],
        "groups": [{"share": 1, "like": {"vcpus_total": 64, "total_usable_ram_mb": 262144}, "used": [0.0, 0.5]}],
    },
    "claims": {"database": "sqlite", "processes": 2, "threads": 2},
    "requests": {"count": 20, "sizes": "azure_v1_sizes.csv", "instances": 3, "repeats": 2},
    "expectations": [{"measure": "per_second", "at_least": 0.1}],
}


def write(folder, document):
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_claims_are_counted_and_timed(tmp_path, database):
    workload = read_workload(write(tmp_path, TINY | {"claims": TINY["claims"] | {"database": database}}))
    found = claims_bench.measure_claims(workload)
    assert (found["database"], found["processes"], found["threads"]) == (database, 2, 2)
    assert len(found["per_second_of_runs"]) == 2
    assert min(found["per_second"], found["median_ms"], found["client_us"]) > 0
    assert (found["nowhere"], found["server_us"] > 0) == (0, database == "postgresql")
    assert found["p99_ms"] >= found["median_ms"]


def test_hosts_have_the_use_that_the_workload_gives_them(tmp_path):
    hosts = claims_bench.used_document(read_workload(write(tmp_path, TINY)))["hosts"]
    assert len({each["host"] for each in hosts}) == 30
    assert 0 < sum(each["vcpus_used"] for each in hosts) < 30 * 64 * 4 * 0.5
    assert all(131072 <= each["free_ram_mb"] <= 262144 for each in hosts)


def test_all_cores_are_used_for_as_long_as_it_takes():
    before = os.sched_getaffinity(0)
    one = {min(before)}
    os.sched_setaffinity(0, one)
    try:
        with claims_bench.all_cores():
            assert os.sched_getaffinity(0) >= before
        assert os.sched_getaffinity(0) == one
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"claims": {"database": "oracle"}}, "one of postgresql, sqlite"),
        ({"claims": {"database": "sqlite", "processes": 0}}, "claims.processes"),
        ({"claims": None}, "says who claims where"),
        ({"kind": "stream"}, "says who claims where"),
    ],
)
def test_a_workload_that_cannot_be_run_is_refused(tmp_path, change, problem):
    document = {name: value for name, value in (TINY | change).items() if value is not None}
    with pytest.raises(BadInput, match=problem):
        read_workload(write(tmp_path, document))


def test_without_postgresql_one_line_says_what_to_do(tmp_path, monkeypatch, capsys):
    write(tmp_path, TINY | {"claims": TINY["claims"] | {"database": "postgresql"}})

    monkeypatch.setattr(private_servers, "DEBIAN_POSTGRESQL", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(private_servers.shutil, "which", lambda program, path: None)
    assert suite.main([], tmp_path) == 2
    assert capsys.readouterr().err == "error: initdb is not installed (Debian has it in the package postgresql)\n"
