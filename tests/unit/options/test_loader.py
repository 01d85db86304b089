# SPDX-License-Identifier: Apache-2.0
"""Options by nova's names, old and new: spec/config.md 1, 2 and 8."""

from dataclasses import dataclass

import pytest

from roost.errors import OptionError
from roost.options.declare import option
from roost.options.read import examine, read_settings
from roost.scheduler.all_options import read_options
from roost.scheduler.options import SchedulerOptions
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
    if how == "fleet" and "a.B" in value:  # data names no code
        with pytest.raises(OptionError, match=rf"\[{section}\] {name} = .*: a fleet file may not name code"):
            read_options(fleet=sections)
        return
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
    text = "[filter_scheduler]\ncount = 2\npci_in_placement = false\n[scheduler]\nmax_placement_results = 4\n"
    assert read(text).count == 2


def test_a_name_in_default_that_is_almost_ours_is_an_error(read, tmp_path):
    with pytest.raises(OptionError) as caught:
        read("[DEFAULT]\nold_cuont = 3\n")
    message = f"{tmp_path / '0.conf'}: [DEFAULT] has no option old_cuont (did you mean old_count?)"
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["zones_of_others", "recount", "cuont", "my_ip"])
def test_any_other_name_in_default_is_left_alone(read, name):
    assert read(f"[DEFAULT]\n{name} = 3\n[filter_scheduler]\ncount = 2\n").count == 2


@pytest.mark.parametrize("section", ["filter_schedular", "filterscheduler", "default", "Default"])
def test_a_section_that_is_almost_ours_is_an_error(read, section):
    with pytest.raises(
        OptionError, match=r"there is no section \[.*\] \(did you mean|there is no section \[default\]"
    ):
        read(f"[{section}]\ncount = 3\n")


@pytest.mark.parametrize("section", ["Filter_Scheduler", "FILTER_SCHEDULER"])
def test_sections_are_read_without_regard_to_case_as_oslo_does(read, section):
    assert read(f"[{section}]\ncount = 3\n").count == 3
    with pytest.raises(OptionError, match=r"\[filter_scheduler\] has no option cuont"):
        read(f"[{section}]\ncuont = 3\n")


def test_everything_that_is_wrong_is_found_at_once(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[filter_scheduler]\ncuont = 3\ncount = 99\nswitch = maybe\n[DEFAULT]\nold_cuont = 1\n")
    problems = [str(each) for each in examine([Own], [file]).problems]
    assert len(problems) == 4
    for word in ("no option cuont", "no option old_cuont", "count = 99", "switch = maybe"):
        assert any(word in problem for problem in problems)


def test_where_plugins_are_named_a_name_that_resembles_none_of_ours_may_be_theirs(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[filter_scheduler]\ncount = 2\nlicences_per_rack = 3\n")
    settings = read_settings([Own], [file], has_plugins=lambda settings: True)
    assert settings.value("filter_scheduler", "count") == 2
    assert [entry.spelling for entry in settings.report.sources[0].unknown] == [
        "[filter_scheduler] licences_per_rack"
    ]
    with pytest.raises(OptionError, match="has no option licences_per_rack"):
        read_settings([Own], [file])


def test_where_plugins_are_named_a_slip_is_an_error_all_the_same(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[filter_scheduler]\ncuont = 2\n")
    with pytest.raises(OptionError, match=r"cuont \(did you mean count\?\)"):
        read_settings([Own], [file], has_plugins=lambda settings: True)


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


# --- folders -----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A folder with files; names and texts."""

    def make(name, **texts):
        made = tmp_path / name
        made.mkdir()
        for file, text in texts.items():
            (made / file.replace("__", ".")).write_text(text)
        return made

    return make


def count_in(*dirs, files=()):
    return read_settings([Own], files, dirs=dirs).fill(Own).count


def test_the_files_of_a_folder_are_read_in_order_of_their_names(folder):
    texts = {f"{at}__conf": f"[filter_scheduler]\ncount = {at}\n" for at in (3, 1, 2)}
    assert count_in(folder("d", **texts)) == 3


def test_folders_come_after_files_and_later_folders_after_earlier_ones(folder, tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[filter_scheduler]\ncount = 9\n")
    first = folder("z", a__conf="[filter_scheduler]\ncount = 2\n")
    second = folder("a", a__conf="[filter_scheduler]\ncount = 3\n")
    assert count_in(first, files=[file]) == 2
    assert count_in(first, second) == 3


def test_what_is_no_conf_file_is_left_alone(folder):
    texts = {"a__conf": "[filter_scheduler]\ncount = 2\n", "b__conf__bak": "rubbish", "README": "rubbish"}
    assert count_in(folder("d", **texts)) == 2


def test_an_empty_folder_says_nothing(folder):
    assert count_in(folder("d")) == 1


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_what_is_no_folder_is_an_error(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=rf"{name}: cannot be read"):
        count_in(tmp_path / name)


# --- values that refer to others ---------------------------------------------------------------------


@pytest.mark.parametrize("reference", ["$my_zone", "${my_zone}", "$my_indirect_zone"])
def test_a_value_may_refer_to_an_option_of_another_service(read, reference):
    text = f"[DEFAULT]\nmy_zone = north\nmy_indirect_zone = $my_zone\nzone = {reference}\n"
    assert read(text).zone == "north"


def test_a_value_that_refers_to_nothing_is_an_error(read):
    with pytest.raises(OptionError, match=r"zone = \$my_zone: no such option my_zone"):
        read("[DEFAULT]\nzone = $my_zone\n")


# --- where a value comes from ------------------------------------------------------------------------


def test_the_environment_wins_over_files_and_explicit_options_over_it(tmp_path, monkeypatch):
    monkeypatch.setenv("OS_FILTER_SCHEDULER__COUNT", "5")
    file = tmp_path / "nova.conf"
    file.write_text("[filter_scheduler]\ncount = 3\n")
    settings = read_settings([Own], [file])
    assert settings.value("filter_scheduler", "count") == 5
    assert settings.origin("filter_scheduler", "count") == "OS_FILTER_SCHEDULER__COUNT in the environment"
    explicit = read_settings([Own], [file], explicit={"filter_scheduler": {"count": 7}})
    assert explicit.value("filter_scheduler", "count") == 7


def test_a_bad_value_in_the_environment_is_told_with_the_name_of_the_variable(monkeypatch):
    monkeypatch.setenv("OS_FILTER_SCHEDULER__COUNT", "many")
    with pytest.raises(OptionError, match=r"OS_FILTER_SCHEDULER__COUNT in the environment: .*count = many"):
        read_settings([Own])


def test_every_value_knows_where_it_comes_from(tmp_path):
    one, two = tmp_path / "1.conf", tmp_path / "2.conf"
    one.write_text("[filter_scheduler]\ncount = 2\nfactor = 2\n")
    two.write_text("[DEFAULT]\nold_count = 3\n")
    settings = read_settings([Own], [one, two], {"filter_scheduler": {"switch": True}}, {"DEFAULT": {"zone": "x"}})
    origins = {name: settings.origin(group, name) for group, name in settings.options}
    assert origins == {
        "count": str(two),
        "factor": str(one),
        "switch": "options",
        "word": "default",
        "names": "default",
        "paths": "default",
        "zone": "options",
    }
