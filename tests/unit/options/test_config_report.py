# SPDX-License-Identifier: Apache-2.0
"""What a reading tells of its files, and how two readings differ."""

from dataclasses import dataclass

import pytest

from roost.options.declare import option
from roost.options.read import read_settings
from roost.options.settings import compare


@dataclass(frozen=True)
class Own:
    """Options with a past."""

    count: int = option(1, old=("old_count",), help="a number")
    words: tuple[str, ...] = option((), help="a list")
    paths: tuple[str, ...] = option((), repeats=True, help="a line each")
    host: str = option("", group="DEFAULT", reloads=False, help="a name")
    token: str | None = option(None, group="scheduler", secret=True, help="a secret")
    address: str = option("", group="database", secret=True, reloads=False, help="an address")


@pytest.fixture
def read(tmp_path):
    def reading(*texts, **more):
        files = [tmp_path / f"{number}.conf" for number in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        return read_settings([Own], files, **more)

    return reading


def test_each_file_has_a_report_of_its_own(read, tmp_path):
    settings = read("[DEFAULT]\nhost = a\n", "[DEFAULT]\nold_count = 2\n[neutron]\nurl = x\nregion = y\n")
    one, two = settings.report.sources
    assert (one.source, two.source) == (str(tmp_path / "0.conf"), str(tmp_path / "1.conf"))
    assert [entry.spelling for entry in one.understood] == ["[DEFAULT] host"]
    assert [(entry.spelling, entry.new_spelling, entry.value) for entry in two.renamed] == [
        ("[DEFAULT] old_count", "[filter_scheduler] count", "2")
    ]
    assert two.ignored == {"neutron": 2}


def test_options_without_use_here_come_with_a_reason(read):
    (source,) = read("[scheduler]\nmax_placement_results = 9\n[DEFAULT]\nscheduler_manager = x\n").report.sources
    assert {entry.spelling: entry.why for entry in source.unused} == {
        "[scheduler] max_placement_results": "every host is looked at",
        "[DEFAULT] scheduler_manager": "there is one manager",
    }


def test_what_oslo_messaging_reads_itself_is_not_called_ignored(read):
    (source,) = read("[oslo_messaging_rabbit]\nssl = true\n[vnc]\nenabled = true\n").report.sources
    assert (source.passed_on, source.ignored) == ({"oslo_messaging_rabbit": 1}, {"vnc": 1})


def test_what_does_not_count_says_what_does(read, tmp_path):
    settings = read("[filter_scheduler]\ncount = 2\n", "[DEFAULT]\nold_count = 3\n[filter_scheduler]\ncount = 4\n")
    assert [entry.why for entry in settings.report.understood] == [f"{tmp_path / '1.conf'} counts", ""]
    assert [entry.why for entry in settings.report.renamed] == ["[filter_scheduler] count counts"]


def test_lines_that_repeat_all_count(read):
    settings = read("[filter_scheduler]\npaths = a\n", "[filter_scheduler]\npaths = b\npaths = c\n")
    assert settings.value("filter_scheduler", "paths") == ("a", "b", "c")
    assert [(entry.value, entry.why) for entry in settings.report.understood] == [("a", ""), ("b, c", "")]


def test_lists_are_shown_with_room_between_their_values(read):
    (entry,) = read("[filter_scheduler]\nwords = a,b,\n  c\n").report.understood
    assert entry.value == "a, b, c"


def test_secrets_are_in_no_report(read):
    settings = read("[scheduler]\ntoken = hush\n[database]\naddress = mysql://u:hush@h/db\n")
    assert "hush" not in repr(settings.report)
    assert "hush" not in repr(settings)
    assert settings.redacted("database", "address") == "mysql://u:***@h/db"
    assert settings.value("scheduler", "token") == "hush"


# --- two readings ------------------------------------------------------------------------------------


def test_equal_readings_do_not_differ(read):
    assert compare(read("[DEFAULT]\nhost = a\n"), read("[DEFAULT]\nhost = a\n")) == []


def test_another_spelling_of_the_same_value_is_no_difference(read):
    assert compare(read("[DEFAULT]\nold_count = 2\n"), read("[filter_scheduler]\ncount = 02\n")) == []


def test_a_change_says_whether_a_restart_is_needed(read):
    changes = compare(read(), read("[DEFAULT]\nhost = a\n[filter_scheduler]\ncount = 2\nwords = a,b\n"))
    assert [(str(change), change.reloads) for change in changes] == [
        ("[DEFAULT] host:  -> a", False),
        ("[filter_scheduler] count: 1 -> 2", True),
        ("[filter_scheduler] words:  -> a, b", True),
    ]


def test_a_changed_secret_is_told_and_not_shown(read):
    before = read("[scheduler]\ntoken = hush\n[database]\naddress = mysql://u:hush@h/db\n")
    changes = compare(before, read("[scheduler]\ntoken = hush2\n[database]\naddress = mysql://u:hush2@h/db\n"))
    assert [str(change) for change in changes] == [
        "[database] address: the secret in it changed",
        "[scheduler] token: the secret in it changed",
    ]
    assert "hush" not in repr(changes)
