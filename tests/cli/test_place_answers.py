# SPDX-License-Identifier: Apache-2.0
"""What `roost place` answers, to people and to programs."""

import csv
import io
import re

import pytest
import yaml

from roost.scheduler.search import STAGES

NO_WEIGHERS = "[filter_scheduler]\nweight_classes =\n"


def table_rows(out):
    return [
        [cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│")
    ]


# --- people ------------------------------------------------------------------------------------------


def test_one_instance_is_answered_with_the_best_hosts_the_choice_and_who_was_left_out(place):
    done = place("--flavor", "small")
    assert done.code == 0
    assert done.err == ""
    assert [row[:2] for row in table_rows(done.out)][:2] == [["1", "big"], ["2", "node-1"]]
    assert "\nchosen: big; next: node-1, node-2\n" in done.out
    assert re.search(r"\n5 hosts looked at in [\d.]+ ms; left out: none\n$", done.out)


def test_several_instances_are_answered_with_a_line_each(place):
    done = place("--flavor", "small", "--count", 3)
    assert [row[0] for row in table_rows(done.out)] == ["1", "2", "3"]
    assert "Instance" in done.out


def test_a_column_in_which_nobody_scored_is_left_out_of_the_table_but_not_of_csv(place):
    only_big = ("--flavor", "small", "--ignore-host", "big")
    heading = place(*only_big).out.splitlines()[1]
    assert "Host" in heading
    assert "Node" not in heading  # the same as the host's
    assert "Node" in place(*only_big, "-f", "csv").out.splitlines()[0]


def test_a_node_name_that_differs_is_shown(place_on):
    done = place_on("hosts: [{host: a, node: n, vcpus_total: 1, total_usable_ram_mb: 1}]")
    assert "Node" in done.out.splitlines()[1]


def test_the_only_host_that_fits_was_not_weighed_and_that_is_said(place):
    done = place("--vcpus", 16, "--ram", 1)
    assert "chosen: big; the only one that fits, so it was not weighed\n" in done.out


def test_the_story_tells_how_many_each_step_left_out(place):
    done = place("--flavor", "small", "--availability-zone", "north", "--ignore-host", "node-1")
    assert "left out: 3 availability_zone, 1 ignore_hosts" in done.out


def test_quiet_means_the_table_alone(place):
    assert place("--flavor", "small", "-q").out.splitlines()[-1].startswith("└")


def test_nobody_gets_a_minus_zero(place, tmp_path):
    (tmp_path / "c.conf").write_text("[filter_scheduler]\nram_weight_multiplier = -1\n")
    assert "-0.0000" not in place("--flavor", "small", "--config-file", "c.conf").out


def test_a_name_in_brackets_is_no_markup_and_no_emoji(place_on):
    done = place_on("hosts: [{host: ':boom:', vcpus_total: 1, total_usable_ram_mb: 1}]")
    assert ":boom:" in done.out


def test_explain_is_an_alias_that_names_the_command_to_use(place, roost):
    request = ("--vcpus", 64, "--ram", 1)
    done, expected = place(*request, "--explain"), roost("explain", "--fleet", "fleet.yaml", *request)
    assert done.err == "--explain goes away: use roost explain instead of place\n"
    assert (done.code, done.out) == (expected.code, expected.out)


def test_profile_says_where_the_time_goes_and_places_nothing(place):
    done = place("--flavor", "small", "--profile")
    assert done.code == 0
    said = [line.split("│")[1].strip() for line in done.out.splitlines() if line.startswith("│")]
    assert said[:6] == ["prefilter", "capacity", "filter", "weigh", "choose", "total"]
    assert {"ComputeFilter", "RAMWeigher"} < set(said)
    assert "5 hosts" in done.out


def test_profile_as_json_has_both_times_of_every_stage(place):
    record = place("--flavor", "small", "--profile", "-f", "json").record
    assert set(record) == {"hosts", "first_us", "again_us", "rules_us"}
    assert set(record["first_us"]) == set(record["again_us"]) == {*STAGES, "total"}
    assert record["first_us"]["total"] > record["again_us"]["total"] > 0


def test_a_request_that_fits_nowhere_has_a_profile_too(place):
    done = place("--vcpus", 999, "--ram", 1, "--profile", "-f", "json")
    assert (done.code, done.record["again_us"]["choose"]) == (0, 0.0)


def test_explain_and_profile_do_not_go_together(place):
    done = place("--flavor", "small", "--profile", "--explain")
    assert (done.code, done.out) == (2, "")
    assert "not allowed with" in done.err


# --- programs ----------------------------------------------------------------------------------------


def test_the_json_of_a_success_has_the_promised_keys(place):
    record = place("--flavor", "small", "-f", "json").record
    (selection,) = record["selections"]
    assert (selection["host"], selection["node"]) == ("big", "big")
    assert selection["alternates"] == [{"host": "node-1", "node": "node-1"}, {"host": "node-2", "node": "node-2"}]
    assert isinstance(selection["limits"], dict)
    decision = record["decision"]
    assert decision["hosts"] == 5
    assert set(decision["steps"][0]) == {"stage", "name", "before", "after"}
    best = decision["best"][0]
    assert set(best) == {"host", "node", "weight", "scores"}
    assert set(best["scores"]) < set(decision["weighers"])  # those that are switched off say nothing
    assert not {"BestFitWeigher", "NumInstancesWeigher"} & set(best["scores"])
    assert set(best["scores"]["RAMWeigher"]) == {"raw", "normalised", "multiplier", "contribution"}
    assert set(decision["time_us"]) == {"prefilter", "capacity", "filter", "weigh", "choose", "total"}


def test_a_weight_is_the_sum_of_multiplier_times_normalised_score(place):
    for best in place("--flavor", "small", "-f", "json").record["decision"]["best"]:
        scores = best["scores"].values()
        assert best["weight"] == pytest.approx(sum(each["multiplier"] * each["normalised"] for each in scores))
        assert best["weight"] == pytest.approx(sum(each["contribution"] for each in scores))


def test_there_are_as_many_selections_as_instances_each_with_a_uuid_of_its_own(place):
    selections = place("--flavor", "small", "--count", 4, "-f", "json").record["selections"]
    assert len({each["instance_uuid"] for each in selections}) == 4


def test_the_yaml_says_the_same_as_the_json(place):
    as_yaml = yaml.safe_load(place("--flavor", "small", "--seed", 1, "-f", "yaml").out)
    as_json = place("--flavor", "small", "--seed", 1, "-f", "json").record
    assert as_yaml["selections"] == as_json["selections"]
    assert as_yaml["decision"]["best"] == as_json["decision"]["best"]


def test_csv_has_a_heading_and_numbers_in_full(place):
    rows = list(csv.DictReader(io.StringIO(place("--flavor", "small", "-f", "csv").out)))
    assert [row["Host"] for row in rows] == ["big", "node-1", "node-2", "node-3", "node-4"]
    assert float(rows[0]["Total"]) > float(rows[1]["Total"])


def test_value_prints_bare_values(place):
    assert place("--flavor", "small", "-f", "value", "-c", "Host").out.splitlines()[0] == "big"


def test_columns_come_in_the_order_asked_whatever_their_case(place):
    assert place("--flavor", "small", "-f", "value", "-c", "rank", "-c", "HOST").out.splitlines()[0] == "1 big"


@pytest.mark.parametrize("shape", ["json", "yaml"])
def test_columns_of_a_record_are_those_of_the_table_as_in_openstackclient(place, shape):
    done = place("--flavor", "small", "-f", shape, "-c", "Host", "-c", "Rank")
    assert yaml.safe_load(done.out)[0] == {"Host": "big", "Rank": 1}


def test_the_same_seed_gives_the_same_answer(place):
    answers = [place("--flavor", "small", "--seed", 7, "-f", "json").record["selections"] for _ in range(2)]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("alternates", [0, 1, 4])
def test_as_many_alternates_as_asked(place, alternates):
    (selection,) = place("--flavor", "small", "--alternates", alternates, "-f", "json").record["selections"]
    assert len(selection["alternates"]) == alternates


def test_repeated_hints_reach_the_filters_as_a_list(place, tmp_path):
    (tmp_path / "hinted.py").write_text(
        "from roost import filters\n"
        "class Hinted(filters.HostFilter):\n"
        "    def host_passes(self, host, spec):\n"
        "        return host.host in spec.scheduler_hints['only']\n"
    )
    (tmp_path / "c.conf").write_text("[filter_scheduler]\nenabled_filters = hinted.Hinted\n")
    hints = ("--hint", "only=node-3", "--hint", "only=node-2")
    done = place("--flavor", "small", "--config-file", "c.conf", *hints, "-f", "value", "-c", "Host")
    assert sorted(done.out.split()) == ["node-2", "node-3"]


def test_image_group_project_zone_and_forced_host_are_understood(place):
    names = ("--image", "debian", "--group", "apart", "--project", "p", "--availability-zone", "north")
    done = place("--flavor", "small", *names, "--force-host", "NODE-2", "-f", "value", "-c", "Host")
    assert (done.code, done.out) == (0, "node-2\n")


def test_a_fleet_may_come_from_standard_input(roost, monkeypatch):
    text = b'{"hosts": [{"host": "a", "vcpus_total": 1, "total_usable_ram_mb": 1}]}'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    done = roost("place", "--fleet", "-", "--vcpus", 1, "--ram", 1, "-f", "value", "-c", "Host")
    assert done.out == "a\n"


# --- no host fits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["table", "csv", "value"])
def test_no_host_fits_is_one_line_whose_counts_add_up(place, shape):
    done = place("--flavor", "huge", "-f", shape)
    summary = "0 of 5 hosts fit: 5 vcpu (needs 64, most free 32)"
    done.assert_refused(f"roost: {summary} (roost explain says what would help)\n", code=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--vcpus", 16, "--ram", 1, "--availability-zone", "north"),
        ("--vcpus", 16, "--ram", 1, "--ignore-host", "big"),
        ("--vcpus", 8, "--ram", 1, "--disk", 90, "--count", 30),
        ("--flavor", "huge", "--force-host", "node-1"),
    ],
)
def test_the_counts_of_a_failure_add_up_to_all_hosts(place, arguments):
    done = place(*arguments)
    assert done.code == 1
    total = int(re.search(r"0 of (\d+) hosts fit", done.err)[1])
    reasons = re.sub(r"\([^)]*\)", "", done.err.partition(": ")[2].partition(": ")[2])
    assert sum(int(count) for count in re.findall(r"(\d+) \w+", reasons)) == total == 5


@pytest.mark.parametrize("shape", ["json", "yaml"])
def test_no_host_fits_is_a_record_for_programs(place, shape):
    done = place("--flavor", "huge", "-f", shape)
    assert (done.code, done.err) == (1, "")
    record = yaml.safe_load(done.out)
    assert record["selections"] == []
    assert record["decision"]["summary"] == "0 of 5 hosts fit: 5 vcpu (needs 64, most free 32)"
    assert record["decision"]["steps"][-1]["after"] == 0


@pytest.mark.parametrize("text", ["", "hosts:\n", "hosts: []\n", "{}"])
def test_a_fleet_without_hosts_has_no_valid_host(place_on, text):
    place_on(text).assert_refused("0 of 0 hosts fit: there are no hosts", code=1)


def test_a_failed_request_for_several_says_at_which_instance(place):
    done = place("--vcpus", 8, "--ram", 1, "--count", 100, "--ignore-host", "big")
    assert re.match(r"roost: 0 of 5 hosts fit instance \d+ of 100: ", done.err)
