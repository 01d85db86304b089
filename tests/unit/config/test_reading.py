# SPDX-License-Identifier: Apache-2.0
"""Options by nova's names, old and new: spec/config.md 1, 2 and 8."""

from dataclasses import dataclass

import pytest

from roost.config import read_settings
from roost.errors import OptionError
from roost.options import option
from roost.scheduler.settings import SchedulerOptions, read_options
from roost.weighers.ram import RAMWeigher


@dataclass(frozen=True)
class Own:
    """One option of every kind."""

    count: int = option(1, min=1, max=9, old=("old_count", "older.count"), help="a number")
    factor: float = option(1.5, help="a float")
    switch: bool = option(False, help="a truth")
    word: str = option("a", choices=("a", "b"), help="a choice")
    names: tuple[str, ...] = option((), old=("old_names",), help="a list")
    paths: tuple[str, ...] = option(("x",), repeats=True, help="a line each")
    zone: str = option("nova", group="DEFAULT", help="in no section")


@pytest.fixture
def read(tmp_path):
    """Reads options from the text of config files, a fleet and a dict."""

    def reading(*texts, fleet=None, explicit=None, owner=Own):
        files = []
        for number, text in enumerate(texts):
            files.append(tmp_path / f"{number}.conf")
            files[-1].write_text(text)
        return read_settings([owner], files, fleet, explicit).fill(owner)

    return reading


# --- nova's names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "name", "value", "field", "expected"),
    [
        ("scheduler", "max_attempts", "5", "max_attempts", 5),
        ("DEFAULT", "scheduler_max_attempts", "5", "max_attempts", 5),
        ("filter_scheduler", "host_subset_size", "4", "host_subset_size", 4),
        ("DEFAULT", "scheduler_host_subset_size", "4", "host_subset_size", 4),
        (
            "filter_scheduler",
            "enabled_filters",
            "RamFilter,CoreFilter",
            "enabled_filters",
            ("RamFilter", "CoreFilter"),
        ),
        ("DEFAULT", "scheduler_default_filters", "RamFilter", "enabled_filters", ("RamFilter",)),
        ("filter_scheduler", "available_filters", "a.B", "available_filters", ("a.B",)),
        ("DEFAULT", "scheduler_available_filters", "a.B", "available_filters", ("a.B",)),
        ("filter_scheduler", "weight_classes", "a.B, c.D", "weight_classes", ("a.B", "c.D")),
        ("DEFAULT", "scheduler_weight_classes", "a.B", "weight_classes", ("a.B",)),
        (
            "filter_scheduler",
            "shuffle_best_same_weighed_hosts",
            "true",
            "shuffle_best_same_weighed_hosts",
            True,
        ),
        ("DEFAULT", "service_down_time", "90", "service_down_time", 90),
    ],
)
@pytest.mark.parametrize("how", ["file", "fleet", "explicit"])
def test_novas_names_old_and_new(tmp_path, how, section, name, value, field, expected):
    file = tmp_path / "nova.conf"
    file.write_text(f"[{section}]\n{name} = {value}\n")
    sections = {section: {name: value}}
    settings = {
        "file": lambda: read_options([file]),
        "fleet": lambda: read_options(fleet=sections),
        "explicit": lambda: read_options(explicit=sections),
    }[how]()
    assert getattr(settings.fill(SchedulerOptions), field) == expected


def test_the_defaults_are_novas():
    options = read_options().fill(SchedulerOptions)
    assert (options.max_attempts, options.host_subset_size, options.shuffle_best_same_weighed_hosts) == (3, 1, False)
    assert options.service_down_time == 60


def test_options_of_plugins_are_read_with_the_others(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[filter_scheduler]\nram_weight_multiplier = -1\n")
    assert read_options([file]).fill(RAMWeigher.Options).ram_weight_multiplier == -1.0


# --- which value counts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "[DEFAULT]\nold_count = 2\n[filter_scheduler]\ncount = 3\n",
        "[filter_scheduler]\ncount = 3\n[DEFAULT]\nold_count = 2\n",
        "[older]\ncount = 2\n[filter_scheduler]\ncount = 3\n",
    ],
)
def test_in_a_file_the_new_name_wins_over_the_old(read, text):
    assert read(text).count == 3


@pytest.mark.parametrize("source", ["fleet", "explicit"])
@pytest.mark.parametrize(
    "sections",
    [
        {"DEFAULT": {"old_count": 2}, "filter_scheduler": {"count": 3}},
        {"filter_scheduler": {"count": 3}, "DEFAULT": {"old_count": 2}},
        {"filter_scheduler": {"count": 3}, "older": {"count": 2}},
    ],
)
def test_in_a_dict_the_new_name_wins_over_the_old(read, source, sections):
    assert read(**{source: sections}).count == 3


@pytest.mark.parametrize("text", ["[DEFAULT]\nold_count = 2\n", "[older]\ncount = 2\n"])
def test_an_old_name_alone_counts(read, text):
    assert read(text).count == 2


@pytest.mark.parametrize(
    ("text", "fleet", "explicit", "count"),
    [
        pytest.param("", None, None, 1, id="default"),
        pytest.param("", {"count": 2}, None, 2, id="fleet over default"),
        pytest.param("count = 3", {"count": 2}, None, 3, id="file over fleet"),
        pytest.param("count = 3", {"count": 2}, {"count": 4}, 4, id="explicit over file"),
        pytest.param("", {"count": 2}, {"count": 4}, 4, id="explicit over fleet"),
        pytest.param("count = 3", None, {"count": 1}, 1, id="explicit even where it is the default"),
    ],
)
def test_explicit_over_file_over_fleet_over_default(read, text, fleet, explicit, count):
    in_section = [{"filter_scheduler": each} if each else None for each in (fleet, explicit)]
    assert read(f"[filter_scheduler]\n{text}\n", fleet=in_section[0], explicit=in_section[1]).count == count


def test_an_old_name_in_a_file_wins_over_the_new_one_of_a_fleet(read):
    assert read("[DEFAULT]\nold_count = 3\n", fleet={"filter_scheduler": {"count": 2}}).count == 3


def test_an_old_name_that_is_explicit_wins_over_the_new_one_in_a_file(read):
    assert read("[filter_scheduler]\ncount = 3\n", explicit={"DEFAULT": {"old_count": 4}}).count == 4


def test_the_later_file_wins(read):
    assert read("[filter_scheduler]\ncount = 2\n", "[filter_scheduler]\ncount = 3\n").count == 3


def test_two_readings_do_not_mix(read):
    read(explicit={"filter_scheduler": {"count": 4}})
    assert read().count == 1


# --- names that do not exist -------------------------------------------------------------------------


def test_an_unknown_name_in_a_file_is_an_error_with_file_section_and_nearest_match(read, tmp_path):
    with pytest.raises(OptionError) as caught:
        read("[filter_scheduler]\ncuont = 3\n")
    message = f"{tmp_path / '0.conf'}: [filter_scheduler] has no option cuont (did you mean count?)"
    assert str(caught.value) == message


@pytest.mark.parametrize("source", ["fleet", "explicit"])
@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"filter_scheduler": {"cuont": 3}}, r"\[filter_scheduler\] has no option cuont \(did you mean count\?\)"),
        ({"DEFAULT": {"old_cuont": 3}}, r"\[DEFAULT\] has no option old_cuont \(did you mean old_count\?\)"),
        ({"filter_sheduler": {"count": 3}}, r"no section \[filter_sheduler\] \(did you mean filter_scheduler\?\)"),
        ({"filter_scheduler": 3}, r"\[filter_scheduler\] is 3"),
    ],
)
def test_an_unknown_name_in_a_dict_is_an_error_with_the_nearest_match(read, source, sections, message):
    with pytest.raises(OptionError, match=message):
        read(**{source: sections})


def test_sections_of_other_services_are_left_alone(read):
    assert read("[DEFAULT]\ndebug = true\n[neutron]\nurl = x\n[filter_scheduler]\ncount = 2\n").count == 2


def test_a_nova_conf_with_options_that_change_nothing_here_is_read(read):
    text = "[filter_scheduler]\ncount = 2\npci_in_placement = false\n[scheduler]\nworkers = 4\n"
    assert read(text).count == 2


# --- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1", "true", "yes", "on", "TRUE", "On"])
def test_words_for_yes(read, text):
    assert read(f"[filter_scheduler]\nswitch = {text}\n").switch is True


@pytest.mark.parametrize("text", ["0", "false", "no", "off", "False", "OFF"])
def test_words_for_no(read, text):
    assert read(f"[filter_scheduler]\nswitch = {text}\n", explicit=None).switch is False


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("names = a", ("a",)),
        ("names = a,b", ("a", "b")),
        ("names = a , b", ("a", "b")),
        ("names =", ()),
        ("names = a,\n  b,\n  c", ("a", "b", "c")),
        ("", ()),
    ],
)
def test_a_list_is_separated_by_commas(read, text, names):
    assert read(f"[filter_scheduler]\n{text}\n").names == names


@pytest.mark.parametrize(
    ("value", "names"), [(["a", "b"], ("a", "b")), ("a,b", ("a", "b")), (["a"], ("a",)), ([], ())]
)
def test_a_list_in_a_dict_is_a_list_or_text(read, value, names):
    assert read(explicit={"filter_scheduler": {"names": value}}).names == names


def test_an_option_of_many_lines_has_a_value_from_each(read):
    assert read("[filter_scheduler]\npaths = a.b\npaths = c.d,e\n").paths == ("a.b", "c.d,e")


@pytest.mark.parametrize(("value", "paths"), [("a.b", ("a.b",)), (["a.b", "c.d"], ("a.b", "c.d"))])
def test_an_option_of_many_lines_in_a_dict_is_a_list_or_one_text(read, value, paths):
    assert read(explicit={"filter_scheduler": {"paths": value}}).paths == paths


def test_a_float_may_be_negative_and_in_any_notation(read):
    assert read("[filter_scheduler]\nfactor = -1e3\n").factor == -1000.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", "0"),
        ("count", "10"),
        ("count", "1.5"),
        ("count", "many"),
        ("count", ""),
        ("factor", "big"),
        ("switch", "perhaps"),
        ("word", "c"),
    ],
)
@pytest.mark.parametrize("how", ["file", "fleet", "explicit"])
def test_a_bad_value_is_an_error_on_one_line_that_names_the_option(read, how, name, value):
    files = [f"[filter_scheduler]\n{name} = {value}\n"] if how == "file" else []
    sections = {} if how == "file" else {how: {"filter_scheduler": {name: value}}}
    with pytest.raises(OptionError) as caught:
        read(*files, **sections)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [1, 9])
def test_the_bounds_themselves_are_good_values(read, value):
    assert read(f"[filter_scheduler]\ncount = {value}\n").count == value


@pytest.mark.parametrize("option_name", ["host_subset_size", "max_attempts"])
def test_nova_asks_for_at_least_1(option_name):
    section = "scheduler" if option_name == "max_attempts" else "filter_scheduler"
    with pytest.raises(OptionError, match=option_name):
        read_options(explicit={section: {option_name: 0}})


# --- files -------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OptionError, match=r"nowhere\.conf: cannot be read"):
        read_options([tmp_path / "nowhere.conf"])


@pytest.mark.parametrize("contents", [b"count = 3\n", b"[filter_scheduler\ncount = 3\n", b"\xff\xfe\x00"])
def test_a_file_that_is_no_config_file_is_an_error_on_one_line(tmp_path, contents):
    file = tmp_path / "bad.conf"
    file.write_bytes(contents)
    with pytest.raises(OptionError, match=r"bad\.conf: cannot be read") as caught:
        read_options([file])
    assert "\n" not in str(caught.value)
