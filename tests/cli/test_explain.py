# SPDX-License-Identifier: Apache-2.0
"""What `roost explain` answers: to people on one screen, to programs in full."""

import pytest


@pytest.fixture
def explain(roost, fleet):
    """`roost explain` on the small fleet."""
    return lambda *arguments: roost("explain", "--fleet", fleet, *arguments)


TOO_LARGE = ("--vcpus", 16, "--ram", 32768, "--availability-zone", "north")


def test_a_request_that_fits_nowhere_is_told_in_one_sentence_with_numbers_that_add_up(explain):
    done = explain(*TOO_LARGE)
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines()[0] == "No host of 5 fits: 3 outside the zone and 2 without enough CPUs."
    assert "Rejected adds up to 5 hosts." in done.out


def test_what_would_help_comes_with_the_hosts_and_the_remedy(explain):
    lines = explain(*TOO_LARGE).out.splitlines()
    at = lines.index("What would help, one change at a time:")
    told = " ".join(lines[at + 1 : at + 5])
    assert "- availability_zone: zone north has 2 hosts, rejected by vcpu (2), also by ram." in told
    assert "Without this, 1 host would do: big." in told


def test_a_remedy_that_changes_a_host_can_be_tried_with_the_arguments_that_it_names(explain, tmp_path):
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace("host: big\n", "host: big\n    service: {disabled: true}\n"))
    request = ("--vcpus", 16, "--ram", 2048)
    said = explain(*request)
    assert said.code == 1
    (arguments,) = [line.partition("Try it: ")[2] for line in said.out.splitlines() if "Try it" in line]
    assert arguments == "--set big.service.disabled=false"
    assert explain(*request, *arguments.split()).code == 0


def test_a_failing_request_fits_on_one_screen(explain):
    for request in (TOO_LARGE, ("--flavor", "huge"), ("--flavor", "small", "--group", "apart", "--count", 9)):
        lines = explain(*request).out.splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80


def test_of_several_instances_it_is_told_how_many_fit(explain):
    done = explain("--flavor", "small", "--group", "apart", "--count", 9)
    assert done.code == 1
    assert done.out.startswith("5 of 9 instances fit. For the next one, no host of 5 fits: 5 that have a member")
    assert "ask for at most 5 instances" in done.out


def test_a_request_that_fits_is_told_with_the_scores_of_the_winner(explain):
    done = explain("--flavor", "small")
    assert done.code == 0
    assert done.out.splitlines()[0] == "The request fits: big is the best of the 5 hosts, of 5, that can take it."
    assert "big weighs 3.0000, the second, node-1, 0.7000: a margin of 2.3000." in done.out
    assert "To be tried next: node-1 and node-2." in done.out


def test_the_only_host_that_fits_was_not_weighed(explain):
    done = explain("--vcpus", 16, "--ram", 1)
    assert done.out.startswith("The request fits: big is the only one of 5 hosts that fits, so it was not weighed.\n")
    assert "Rejected: 4 without enough CPUs." in done.out


def test_a_host_is_told_all_that_is_against_it(explain):
    done = explain(*TOO_LARGE, "--host", "NODE-3")
    assert done.code == 1
    assert done.out.splitlines()[0] == "node-3 cannot take the request: 4 checks reject it, for 3 reasons."
    assert "16 vcpu asked; one instance may take 8 at most" in done.out
    assert "32768 MiB ram asked; 16384 of 16384 left" in done.out
    assert "A placement rejects it at availability_zone, and asks no further." in done.out


def test_a_host_that_lost_is_told_beside_the_winner(explain):
    done = explain("--flavor", "small", "--host", "node-3")
    assert done.code == 0
    assert done.out.splitlines()[0] == "node-3 can take the request, but is number 4 of 5."
    assert "big won: it weighs 3.0000, node-3 0.7000." in done.out


def test_the_best_host_is_told_that_it_is(explain):
    assert "big takes the request: it is the best of 5 hosts" in explain("--flavor", "small", "--host", "big").out


def test_long_has_a_row_for_each_rejected_host(explain):
    rows = explain(*TOO_LARGE, "--long", "-f", "csv").out.splitlines()
    assert rows[0] == "Host,Node,Stage,Check,Reason"
    assert [row.split(",")[0] for row in rows[1:]] == ["big", "node-1", "node-2", "node-3", "node-4"]


def test_json_has_all_of_it(explain):
    record = explain(*TOO_LARGE, "-f", "json").record
    assert (record["fits"], record["hosts"], len(record["rejections"])) == (False, 5, 5)
    assert record["steps"][0] == {"stage": "prefilter", "name": "availability_zone", "before": 5, "after": 2}
    assert sum(each["hosts"] for each in record["reasons"]) == 5
    assert {"subjects", "checks", "hosts", "examples"} == set(record["lifts"][0])


def test_csv_has_the_rows_of_the_funnel(explain):
    rows = explain(*TOO_LARGE, "-f", "csv").out.splitlines()
    assert rows[0] == "Stage,Check,In,Rejected,Left,In all"
    assert rows[1] == "prefilter,availability_zone,5,3,2,3"


def test_the_json_of_a_host_has_its_blockers(explain):
    blockers = explain(*TOO_LARGE, "--host", "node-3", "-f", "json").record["blockers"]
    assert [each["name"] for each in blockers] == ["availability_zone", "vcpu", "ram", "AvailabilityZoneFilter"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--flavor", "smal"), "unknown flavor 'smal' (did you mean small?)"),
        (("--flavor", "small", "--host", "nod-3"), "unknown host 'nod-3' (did you mean node-"),
        (
            ("--flavor", "small", "--availability-zone", "nort"),
            "unknown availability zone 'nort' (did you mean north?)",
        ),
        (("--flavor", "small", "--node", "node-3"), "--node is for --host"),
        (("--host", "node-3"), "the size of the instance is missing"),
        (("--flavor", "small", "--host", "node-3", "--long"), "not allowed with"),
    ],
)
def test_wrong_input_is_told_in_one_line(explain, arguments, words):
    explain(*arguments).assert_refused(words)
