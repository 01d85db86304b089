"""What if: the arguments of commands that look at a fleet, on the example fleet."""

import json
from pathlib import Path

import pytest

from roost.cli.fleet_arguments import arguments_for
from roost.model.remedy import AggregateChange, HostChange, OptionChange, RequestChange

FLEET = str(Path(__file__).parents[2] / "examples" / "fleet.yaml")
SMALL = ("place", "--fleet", FLEET, "--flavor", "small", "-f", "json")


@pytest.fixture
def chosen(roost):
    """The hosts that `roost place` chooses with further arguments, best first."""

    def place(*arguments):
        result = roost(*SMALL, *arguments)
        assert result.code == 0, result.err
        return [each["host"] for each in json.loads(result.out)["decision"]["best"]]

    return place


def test_a_field_of_a_host(chosen):
    assert chosen()[0] == "rack2-01"
    assert chosen("--set", "rack2-01.free_ram_mb=5000")[0] == "rack2-02"


def test_a_field_of_a_range_of_hosts(chosen):
    assert chosen("--set", "rack2-[01-03].service.disabled=true")[0] == "rack1-01"


def test_the_last_of_two_values_counts(chosen):
    down, up = "rack2-01.service.disabled=true", "rack2-01.service.disabled=false"
    assert chosen("--set", down, "--set", up)[0] == "rack2-01"


def test_a_host_that_is_down(chosen):
    assert "rack2-01" not in chosen("--down", "rack2-01")


def test_more_hosts(chosen):
    assert chosen("--add-hosts", "2", "--like", "rack2-01", "--down", "rack2-01")[:2] == [
        "rack2-01-copy-1",
        "rack2-01-copy-2",
    ]


def test_a_copied_host_can_be_changed(chosen):
    copies = ("--add-hosts", "1", "--like", "rack2-01")
    assert chosen(*copies, "--set", "rack2-01-copy-1.total_usable_ram_mb=999999")[0] == "rack2-01-copy-1"


def test_without_a_filter(chosen):
    assert "rack1-01" in chosen("--down", "rack1-01", "--without-filter", "ComputeFilter")


def test_a_weigher_with_another_multiplier(chosen):
    assert chosen("--weigher", "RAMWeigher=-9")[0] == "rack1-05"


def test_another_zone_of_an_aggregate_may_be_asked_for(chosen):
    arguments = ("--set-aggregate", "north.availability_zone=west", "--availability-zone", "west")
    assert chosen(*arguments)[0] == "rack1-01"


def test_metadata_that_is_taken_out(chosen):
    arguments = ("--set-aggregate", "south.availability_zone=null", "--availability-zone", "nova")
    assert chosen(*arguments)[0] == "rack2-01"


def test_an_option_wins_over_that_of_the_fleet(chosen):
    assert chosen("--set-option", "filter_scheduler.weight_classes=[]")[0] != "rack2-01"


def test_names_of_hosts_and_values_may_have_dots(roost, tmp_path):
    fleet = tmp_path / "fleet.yaml"
    hosts = "\n".join(
        f"- {{host: a.example.{name}, vcpus_total: 8, total_usable_ram_mb: 8192, total_usable_disk_gb: 100}}"
        for name in ("org", "org.service")
    )
    fleet.write_text(f"hosts:\n{hosts}\n")
    size = ("--fleet", str(fleet), "--vcpus", "1", "--ram", "512", "--disk", "1", "-f", "json")
    result = roost("place", *size, "--set", "a.example.org.service.service.disabled=true")
    assert [each["host"] for each in json.loads(result.out)["decision"]["best"]] == ["a.example.org"]
    result = roost("place", *size, "--set", "a.example.org.host_ip='10.1.2.3'")
    assert result.code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "rack1-1.free_ram_mb=3"], "unknown host 'rack1-1' (did you mean rack1-01?)"),
        (["--set", "rack1-01.free_ram=3"], "rack1-01: 'free_ram' is no field of a host (did you mean free_ram_mb?)"),
        (["--set", "rack1-01.free_ram_mb=x"], "rack1-01.free_ram_mb: 'x' is not a whole number"),
        (["--set", "rack1-[01-09].num_io_ops=3"], "unknown host 'rack1-06' (did you mean rack2-06?)"),
        (["--set", "rack1-[01-99].num_io_ops=3"], "'rack1-[01-99]' stands for 99 hosts (the fleet has 11)"),
        (["--set", "rack1-[01-.num_io_ops=3"], "has a bracket that is no range (write a range as [001-200])"),
        (["--set", "rack1-01.traits=[a"], "--set rack1-01.traits, line 2: not YAML"),
        (["--set", "rack1-01"], "'rack1-01' is not HOST.FIELD=VALUE"),
        (["--set", "rack1-01=3"], "'rack1-01=3' is not HOST.FIELD=VALUE"),
        (["--down", "rack1-1"], "unknown host 'rack1-1' (did you mean rack1-01?)"),
        (["--set-aggregate", "nort.a=b"], "unknown aggregate 'nort' (did you mean north?)"),
        (["--without-filter", "ComputFilter"], "'ComputFilter' is not enabled (did you mean ComputeFilter?)"),
        (["--without-filter", "RetryFilter"], "'RetryFilter' is not enabled"),
        (["--weigher", "RamWeigher=1"], "'RamWeigher' is not enabled (did you mean RAMWeigher?)"),
        (["--weigher", "RAMWeigher=much"], "RAMWeigher: 'much' is not a number"),
        (["--add-hosts", "3"], "--add-hosts and --like go together"),
        (["--like", "rack1-01"], "--add-hosts and --like go together"),
        (["--add-hosts", "3", "--like", "rack"], "unknown host 'rack'"),
        (["--set-option", "filter_scheduler.max_io_ops=3"], "has no option max_io_ops"),
        (["--set-option", "filter_scheduler.max_io_ops_per_host=-1"], "--set-option: [filter_scheduler] max_io_ops"),
        (["--set-option", "database.connection=sqlite://"], "a fleet file may not name code, addresses or files"),
    ],
)
def test_a_wrong_argument_is_one_line_that_names_the_nearest(roost, arguments, message):
    result = roost(*SMALL, *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_changes_of_a_remedy_as_arguments():
    changes = [
        HostChange("a", "traits", ["X", "Y"]),
        HostChange("a", "service.up", True),
        AggregateChange("n", "k", None),
        OptionChange("s", "o", 3),
    ]
    assert arguments_for(changes) == [
        "--set 'a.traits=[X, Y]'",
        "--set a.service.up=true",
        "--set-aggregate n.k=null",
        "--set-option s.o=3",
    ]


def test_a_change_of_the_request_has_no_arguments():
    assert arguments_for([HostChange("a", "num_io_ops", 1), RequestChange("availability_zone", None)]) == []


def test_explain_takes_them_and_names_them(roost):
    request = ("explain", "--fleet", FLEET, "--flavor", "small", "--host", "rack2-06")
    told = roost(*request)
    assert (told.code, "Try it: --set rack2-06.service.disabled=false" in told.out) == (1, True)
    assert roost(*request, "--set", "rack2-06.service.disabled=false").code == 0
