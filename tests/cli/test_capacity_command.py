# SPDX-License-Identifier: Apache-2.0
"""`roost capacity`: tables, captions and JSON; wrong arguments are one line."""

import io

import pytest
from tests.cli.conftest import FLEET

from roost.cli import fleet_arguments
from roost.cli.output import changing_bar
from roost.sources.snapshot import Snapshot

SERVER = """\
    instances:
      - uuid: 7d2f4a0e-6a52-4a1e-8f0c-0b7c1d9e5a33
        resources: {VCPU: 2, MEMORY_MB: 2048, DISK_GB: 20}
"""


@pytest.fixture
def capacity(roost, tmp_path):
    """Runs the command on the fleet."""
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET, encoding="utf-8")
    return lambda *arguments: roost("capacity", "--fleet", path, *arguments)


def rows(outcome):
    """The rows of a table, without its lines."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in outcome.out.splitlines() if "│" in line]


def test_one_flavor_is_counted_by_zone_and_summed_up(capacity):
    outcome = capacity("--flavor", "small")
    assert outcome.code == 0
    assert rows(outcome) == [["north", "2", "10", "2", "disk, 2 hosts"], ["nova", "3", "35", "3", "disk, 3 hosts"]]
    assert outcome.out.splitlines()[-2:] == [
        "45 more small fit; disk runs out first, on 5 of 5 hosts",
        "left out in the end: 5 disk (needs 20 GB, most free 0)",
    ]


def test_the_loss_of_the_host_that_costs_most_ends_the_sentence(capacity):
    outcome = capacity("--flavor", "small", "--n-plus-one")
    assert "45 more small fit; disk runs out first, on 5 of 5 hosts; 20 after the loss of big" in outcome.out


def test_what_is_to_be_known_of_the_lost_host_is_said(roost, tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET.replace("aggregates:", SERVER + "aggregates:"), encoding="utf-8")
    outcome = roost("capacity", "--fleet", path, "--flavor", "small", "--n-plus-one")
    assert "big: 1 of its 1 servers placed on other hosts first" in outcome.out


def test_without_a_size_every_flavor_is_counted_alone(capacity):
    outcome = capacity()
    assert rows(outcome) == [["small", "45", "5", "disk, 5 hosts"], ["huge", "0", "0", "vcpu, 5 hosts"]]
    assert "5 hosts; each flavor is counted alone" in outcome.out
    with_loss = rows(capacity("--n-plus-one"))
    assert with_loss[0] == ["small", "45", "5", "disk, 5 hosts", "20", "big"]


def test_a_snapshot_gives_the_answer_of_the_fleet_it_was_taken_of(roost, capacity, tmp_path):
    assert roost("snapshot", "save", "x.snap", "--fleet", tmp_path / "fleet.yaml").code == 0
    asked = ("--n-plus-one", "-f", "json")
    assert roost("capacity", "--from", "x.snap", *asked).record == capacity(*asked).record


def test_without_a_file_the_live_cloud_is_counted(roost, capacity, tmp_path, monkeypatch):
    roost("snapshot", "save", "x.snap", "--fleet", tmp_path / "fleet.yaml")
    monkeypatch.setattr(fleet_arguments, "load_live_snapshot", lambda *arguments: Snapshot.load("x.snap"))
    asked = ("--flavor", "small", "-f", "json")
    assert roost("capacity", *asked).record == capacity(*asked).record


def test_what_if_arguments_change_what_is_counted(capacity):
    assert "145 more small fit" in capacity("--flavor", "small", "--add-hosts", "4", "--like", "big").out
    assert "20 more small fit" in capacity("--flavor", "small", "--down", "big").out


def test_a_flavor_that_is_not_valid_has_a_line_and_the_others_are_counted(roost, tmp_path):
    path = tmp_path / "fleet.yaml"
    gpu = '  - {name: gpu, vcpus: 2, memory_mb: 2048, extra_specs: {"pci_passthrough:alias": "a100:1"}}\n'
    path.write_text(FLEET.replace("images:", gpu + "images:"), encoding="utf-8")
    outcome = roost("capacity", "--fleet", path)
    assert outcome.code == 0
    assert rows(outcome)[::2] == [["small", "45", "5", "disk, 5 hosts"], ["gpu", "", "", "not valid"]]
    assert "gpu: PCI alias" in outcome.out
    assert "a100" in roost("capacity", "--fleet", path, "-f", "json").record[2]["error"]
    roost("capacity", "--fleet", path, "--flavor", "gpu").assert_refused("a100")


def test_a_flavor_that_fits_nowhere_is_an_answer(capacity):
    outcome = capacity("--flavor", "huge")
    assert outcome.code == 0
    assert "0 more huge fit; vcpu rejects 5 of 5 hosts" in outcome.out


def test_a_size_may_be_given_by_its_parts(capacity):
    outcome = capacity("--vcpus", "16", "--ram", "1024")
    assert "8 more servers of this size fit; vcpu runs out first, on 1 of 5 hosts" in outcome.out


def test_members_of_a_group_are_limited_by_its_filter(capacity):
    outcome = capacity("--flavor", "small", "--group", "apart")
    assert "5 more small fit; ServerGroupAntiAffinityFilter is the first limit, on 5 of 5 hosts" in outcome.out


def test_long_has_a_row_per_host(capacity):
    assert rows(capacity("--flavor", "small", "--long"))[:2] == [["big", "25"], ["node-1", "5"]]


def test_json_has_all_of_it(capacity):
    record = capacity("--flavor", "small", "--n-plus-one", "--by", "availability_zone", "-f", "json").record
    assert (record["flavor"], record["fits"], record["hosts"], record["is_complete"]) == ("small", 45, 5, True)
    assert record["groups"][0] == {
        "name": "north",
        "hosts": 2,
        "fits": 10,
        "hosts_used": 2,
        "shortages": [{"stage": "capacity", "name": "disk", "hosts": 2, "ran_out_on": 2, "detail": ""}],
    }
    assert record["placed"][0] == {"host": "big", "node": "big", "fits": 25}
    assert record["worst_loss"]["host"] == "big"
    assert [each["flavor"] for each in capacity("-f", "json").record] == ["small", "huge"]


def test_values_are_for_scripts(capacity):
    assert capacity("-f", "value", "-c", "flavor", "-c", "fit").out == "small 45\nhuge 0\n"


def test_counting_that_stops_early_says_so(capacity):
    outcome = capacity("--flavor", "small", "--most", "7")
    assert "7 more small fit, and maybe more: counting stopped there, see --most" in outcome.out
    assert "small: counting stopped at 7, see --most" in capacity("--most", "7").out


def test_nothing_has_run_out_where_counting_stopped_early(capacity):
    found = rows(capacity("--flavor", "small", "--most", "2", "--set", "node-1.service.disabled=true"))
    assert [each[-1] for each in found] == ["", ""]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--flavor", "smal"], ["unknown flavor 'smal'", "did you mean small?"]),
        (["--flavor", "small", "--availability-zone", "nort"], ["'nort'", "did you mean north?"]),
        (["--by", "availability_zones"], ["'availability_zones'", "did you mean availability_zone?"]),
        (["--flavor", "small", "--group", "apar"], ["'apar'", "did you mean apart?"]),
        (["--vcpus", "2"], ["the size of the instance is missing", "--ram MIB"]),
        (["--flavor", "small", "--ram", "2"], ["contradict each other"]),
        (["--long"], ["--long is for one flavor", "--flavor NAME"]),
        (["--most", "0"], ["--most"]),
        (["--flavor", "small", "--hint", "_nova_check_type=rebuild"], ["a rebuild takes nothing"]),
    ],
)
def test_wrong_arguments_are_one_line(capacity, arguments, words):
    capacity(*arguments).assert_refused(*words)


def test_a_fleet_without_flavors_needs_a_size(roost, tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text("hosts: [{host: a, vcpus_total: 8, total_usable_ram_mb: 8192}]", encoding="utf-8")
    roost("capacity", "--fleet", path).assert_refused("the fleet has no flavors", "--vcpus N")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_is_shown_on_a_terminal_only_and_not_if_quiet(monkeypatch):
    def shown(stream, is_quiet):
        monkeypatch.setattr("sys.stderr", stream)
        with changing_bar(is_quiet) as progress:
            progress("m1.large: instances", 256, 1000)
        return stream.getvalue()

    assert "m1.large: instances" in shown(Terminal(), False)
    assert "256/1000" in shown(Terminal(), False)
    assert shown(Terminal(), True) == shown(io.StringIO(), False) == ""
