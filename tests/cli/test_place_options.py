# SPDX-License-Identifier: Apache-2.0
"""Config files: what they decide, what is wrong with them, and old names."""

import pytest

S = "[filter_scheduler]\n"


@pytest.fixture
def with_config(place, tmp_path):
    def run(text, *arguments):
        (tmp_path / "nova.conf").write_bytes(text if isinstance(text, bytes) else text.encode())
        return place("--flavor", "small", "--config-file", "nova.conf", *arguments)

    return run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{S}host_subset_siz = 3",
            "nova.conf: [filter_scheduler] has no option host_subset_siz (did you mean host_",
        ),
        (f"{S}host_subset_size = x", "nova.conf: [filter_scheduler] host_subset_size = x: is not a whole number"),
        (f"{S}host_subset_size = 0", "host_subset_size = 0: should be greater than or equal to 1"),
        (f"{S}host_subset_size =", "[filter_scheduler] host_subset_size = : has no value"),
        (
            "[DEFAULT]\nscheduler_host_subset_size = x",
            "nova.conf: [DEFAULT] scheduler_host_subset_size = x: is not a",
        ),
        (f"{S}shuffle_best_same_weighed_hosts = maybe", "= maybe: is neither true nor false"),
        (
            f"{S}ram_weight_multiplier = abc",
            "nova.conf: [filter_scheduler] ram_weight_multiplier = abc: is not a number",
        ),
        (f"{S}ram_weight_multiplier = nan", "ram_weight_multiplier = nan: is not a number (write a finite one)"),
        (f"{S}ram_weight_multiplier = inf", "ram_weight_multiplier = inf: is not a number"),
        (f"{S}enabled_filters = $nothing", "enabled_filters = $nothing: no such option nothing"),
        ("[filter_schedular]\nhost_subset_size = 3", "there is no section [filter_schedular] (did you mean filter_"),
        ("[filter_scheduler\n", "nova.conf: cannot be read: at nova.conf:1, Invalid section"),
        ("nonsense\n", "nova.conf: cannot be read: at nova.conf:1, No ':' or '=' found"),
        (b"\xff\xfe\x00", "nova.conf: cannot be read"),
        (f"{S}enabled_filters = Computefilter", "unknown filter Computefilter (did you mean ComputeFilter?)"),
        (f"{S}weight_classes = RamWeigher", "unknown weigher RamWeigher (did you mean RAMWeigher?)"),
        (
            f"{S}available_filters = nosuch.Thing",
            "nosuch.Thing: there is no module nosuch (looked in Python's path and",
        ),
        (f"{S}enabled_filters = json.nosuch", "json.nosuch: json has no nosuch"),
        (f"{S}enabled_filters = json.JSONDecoder", "json.JSONDecoder is not a filter class"),
        (f"{S}weight_classes = roost.filters.ram.RamFilter", "is not a weigher class"),
        (f"{S}available_filters = nodots", "nodots is no dotted path (write package.module.Class)"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(with_config, text, message):
    with_config(text).assert_refused(message)


@pytest.mark.parametrize(("name", "message"), [("nowhere.conf", "No such file"), (".", "Is a directory")])
def test_a_config_file_that_cannot_be_read(place, name, message):
    place("--flavor", "small", "--config-file", name).assert_refused(f"{name}: cannot be read", message)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("syntax.py", "def (", "syntax.Thing: importing failed: SyntaxError"),
        ("raises.py", "1 / 0", "raises.Thing: importing failed: ZeroDivisionError: division by zero"),
        ("empty.py", "", "empty.Thing: empty has no Thing"),
        ("number.py", "Thing = 5", "number.Thing is not a filter class but 5 (derive it from HostFilter)"),
        ("needs.py", "import no_such_library", "needs.Thing: there is no module no_such_library"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_told_in_one_line(with_config, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with_config(f"{S}enabled_filters = {name.removesuffix('.py')}.Thing").assert_refused(message)


def test_a_plugin_that_ends_the_program_does_not_do_so_silently(with_config, tmp_path):
    (tmp_path / "leaver.py").write_text("import sys; sys.exit(0)")
    with_config(f"{S}enabled_filters = leaver.Thing").assert_refused("a plugin failed: SystemExit: 0", code=3)


# --- what a file decides -----------------------------------------------------------------------------


def test_multipliers_of_a_config_file_turn_the_choice_round(with_config):
    packed = "".join(f"{name}_weight_multiplier = -1\n" for name in ("ram", "cpu", "disk"))
    assert with_config(S + packed, "-f", "value", "-c", "Host").out.splitlines()[0] == "node-1"


def test_a_later_file_wins_over_an_earlier_one_and_files_over_the_fleet(place_on, tmp_path):
    fleet = "hosts: [{host: a, vcpus_total: 1, total_usable_ram_mb: 1}]\noptions: {scheduler: {max_attempts: 0}}\n"
    (tmp_path / "1.conf").write_text("[scheduler]\nmax_attempts = 0\n")
    (tmp_path / "2.conf").write_text("[scheduler]\nmax_attempts = 5\n")
    done = place_on(fleet, "--vcpus", 1, "--ram", 1, "--config-file", "1.conf", "--config-file", "2.conf")
    done.assert_refused("fleet.yaml, line 2: [scheduler] max_attempts = 0")  # wrong even where it would not count
    fleet = fleet.replace("max_attempts: 0", "max_attempts: 2")
    assert place_on(fleet, "--vcpus", 1, "--ram", 1, "--config-file", "2.conf").code == 0


def test_options_of_other_services_are_none_of_our_business(with_config):
    text = (
        "[DEFAULT]\ndebug = true\ntransport_url = rabbit://\n[neutron]\nurl = x\n[oslo_concurrency]\nlock_path = /\n"
    )
    done = with_config(text)
    assert (done.code, done.err) == (0, "")


# --- old names ---------------------------------------------------------------------------------------


def test_an_old_name_still_works_and_is_told_in_one_readable_line(with_config):
    done = with_config("[DEFAULT]\nscheduler_default_filters = ComputeFilter\n", "-f", "value", "-c", "Host")
    assert done.code == 0
    assert done.err == (
        "roost: warning: nova.conf: [DEFAULT] scheduler_default_filters still works; "
        "its name is now [filter_scheduler] enabled_filters\n"
    )


def test_an_old_name_in_a_fleet_is_told_with_its_line(place_on):
    fleet = "hosts: [{host: a, vcpus_total: 1, total_usable_ram_mb: 1}]\noptions:\n  DEFAULT:\n"
    done = place_on(fleet + "    scheduler_max_attempts: 4\n")
    assert done.err.startswith("roost: warning: fleet.yaml, line 4: [DEFAULT] scheduler_max_attempts still works; ")


def test_old_names_are_not_told_to_those_who_want_quiet(with_config):
    assert with_config("[DEFAULT]\nscheduler_default_filters = ComputeFilter\n", "--quiet").err == ""


def test_old_names_are_not_told_beside_a_mistake(with_config):
    with_config("[DEFAULT]\nscheduler_default_filters = Nothing\n").assert_refused("unknown filter Nothing")


def test_old_names_are_told_beside_a_failure(place, tmp_path):
    (tmp_path / "nova.conf").write_text("[DEFAULT]\nscheduler_default_filters = ComputeFilter\n")
    done = place("--flavor", "huge", "--config-file", "nova.conf")
    assert done.code == 1
    assert done.err.count("\n") == 2


def test_a_name_in_default_that_is_almost_ours_is_an_error(with_config):
    done = with_config("[DEFAULT]\nscheduler_default_filtres = ComputeFilter\n")
    done.assert_refused("[DEFAULT] has no option scheduler_default_filtres (did you mean scheduler_default_filters?)")


def test_two_runs_in_one_process_tell_once_each(with_config):
    text = "[DEFAULT]\nscheduler_default_filters = ComputeFilter\n"
    assert [with_config(text).err.count("\n") for _ in range(3)] == [1, 1, 1]
