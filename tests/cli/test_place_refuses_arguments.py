# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments: one line, exit code 2, nothing done."""

import pytest

SMALL = ("--flavor", "small")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the size of the instance is missing (give --flavor NAME, or --vcpus N --ram MIB"),
        (("--vcpus", 2), "the size of the instance is missing"),
        (("--ram", 2), "the size of the instance is missing"),
        (("--vcpus", -2, "--ram", 4), "--vcpus: -2 is too small: at least 0"),
        (("--vcpus", 2, "--ram", -4), "--ram: -4 is too small"),
        (("--vcpus", 2, "--ram", 4, "--disk", -1), "--disk: -1 is too small"),
        (("--vcpus", "two", "--ram", 4), "--vcpus: 'two' is not a whole number"),
        (("--vcpus", "2.5", "--ram", 4), "--vcpus: '2.5' is not a whole number"),
        (("--vcpus", "9" * 30, "--ram", 4), "is too large: at most 1000000000000000"),
        (("--vcpus", "9" * 5000, "--ram", 4), "is not a whole number"),
        (("--flavor", "small", "--vcpus", 2), "--flavor and --vcpus contradict each other (give one or the other)"),
        (("--flavor", "small", "--disk", 0), "--flavor and --disk contradict each other"),
        (("--flavor", "smal"), "unknown flavor 'smal' (did you mean small?)"),
        ((*SMALL, "--count", 0), "--count: 0 is too small: at least 1"),
        ((*SMALL, "--count", "x"), "--count: 'x' is not a whole number"),
        ((*SMALL, "--count", 10**9), "--count: 1000000000 is too large: at most 100000"),
        ((*SMALL, "--count"), "--count: expected one argument"),
        ((*SMALL, "--image", "debain"), "unknown image 'debain' (did you mean debian?)"),
        ((*SMALL, "--group", "web"), "unknown server group 'web' (known: apart)"),
        ((*SMALL, "--availability-zone", "nroth"), "unknown availability zone 'nroth' (did you mean north?)"),
        ((*SMALL, "--ignore-host", "node-11"), "unknown host 'node-11' (did you mean node-1?)"),
        ((*SMALL, "--force-host", "x"), "unknown host 'x'"),
        ((*SMALL, "--hint", "group"), "--hint: 'group' is not KEY=VALUE"),
        ((*SMALL, "--hint", "=x"), "--hint: '=x' is not KEY=VALUE"),
        ((*SMALL, "--alternates", -1), "--alternates: -1 is too small: at least 0"),
        ((*SMALL, "--seed", "x"), "--seed: 'x' is not a whole number"),
        ((*SMALL, "-c", "Hots"), "-c Hots: there is no such column (did you mean Host?)"),
        ((*SMALL, "-f", "json", "-c", "Hots"), "-c Hots: there is no such column"),
        ((*SMALL, "-f", "xml"), "-f/--format: invalid choice: 'xml' (choose from 'table', 'json'"),
        ((*SMALL, "--vcpu", 2), "unknown argument --vcpu (did you mean --vcpus?)"),
        ((*SMALL, "--cou", 2), "unknown argument --cou"),  # abbreviations break when an option is added
        ((*SMALL, "more"), "unknown argument more (see roost place --help)"),
    ],
)
def test_a_wrong_argument_is_told_in_one_line(place, arguments, message):
    place(*arguments).assert_refused(message)


def test_no_fleet_at_all(roost):
    words = "no cloud is known here", "roost dev", "--fleet FILE", "--from SNAPSHOT"
    roost("place", "--flavor", "small").assert_refused(*words, code=4)


def test_a_fleet_and_a_snapshot(place):
    place("--flavor", "small", "--from", "x").assert_refused("--from: not allowed with argument --fleet")


@pytest.mark.parametrize("shape", ["table", "json", "yaml", "csv", "value"])
def test_a_mistake_puts_nothing_on_stdout_in_any_format(place, shape):
    place("--flavor", "smal", "-f", shape).assert_refused("did you mean small?")


def test_no_flavors_are_defined_is_said(place_on):
    place_on("hosts: []", "--flavor", "m1").assert_refused("unknown flavor 'm1' (none are defined)")


def test_a_flavor_is_also_known_by_its_id(place_on):
    fleet = "hosts: [{host: a, vcpus_total: 1, total_usable_ram_mb: 1}]\n"
    done = place_on(fleet + "flavors: [{name: tiny, id: 42, vcpus: 1, memory_mb: 1}]", "--flavor", "42")
    assert done.code == 0


def test_a_zone_without_hosts_is_known_and_full(place_on):
    fleet = "hosts: [{host: a}]\naggregates: [{name: z, metadata: {availability_zone: empty}}]\n"
    done = place_on(fleet, "--vcpus", 1, "--ram", 1, "--availability-zone", "empty")
    done.assert_refused("0 of 1 hosts fit: 1 availability_zone", code=1)


def test_an_unknown_host_of_many_thousands_is_found_out_quickly(place_on):
    done = place_on("hosts: [{host: 'node-[00001-50000]'}]", "--vcpus", 1, "--ram", 1, "--ignore-host", "nood-00007")
    done.assert_refused("unknown host 'nood-00007' (did you mean node-00007?)")


def test_a_policy_that_no_enabled_filter_enforces_is_refused(place_on, tmp_path):
    fleet = "hosts: [{host: a}]\nserver_groups: [{name: g, policy: affinity}]\n"
    (tmp_path / "c.conf").write_text("[filter_scheduler]\nenabled_filters = ComputeFilter\n")
    done = place_on(fleet, "--vcpus", 1, "--ram", 1, "--group", "g", "--config-file", "c.conf")
    done.assert_refused("ServerGroupAffinityFilter is not enabled")
