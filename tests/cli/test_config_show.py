# SPDX-License-Identifier: Apache-2.0
"""`roost config show` and `roost config sample`."""

import pytest

from roost.options.declare import declared
from roost.scheduler.all_options import option_owners

ALL = {(each.group, each.name) for owner in option_owners() for each in declared(owner)}

COLUMNS = ("-c", "section", "-c", "option", "-c", "value", "-c", "from")


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "nova.conf"
    path.write_text(
        "[DEFAULT]\nscheduler_max_attempts = 5\ntransport_url = rabbit://u:hush@h/\n"
        "[database]\nconnection = mysql://u:hush@h/db\n[trusted_computing]\nattestation_auth_blob = hush\n"
    )
    return path


def test_every_option_is_shown_once(roost):
    records = roost("config", "show", "-f", "json").record
    assert len(records) == len(ALL)
    assert {(each["section"], each["option"]) for each in records} == ALL
    assert {each["from"] for each in records} == {"default"}


def test_what_is_set_comes_first_with_its_file(roost, conf):
    lines = roost("config", "show", "--config-file", conf.name, "-f", "value", *COLUMNS).out.splitlines()
    assert lines[:4] == [
        "DEFAULT transport_url rabbit://u:***@h/ nova.conf",
        "database connection mysql://u:***@h/db nova.conf",
        "scheduler max_attempts 5 nova.conf",
        "trusted_computing attestation_auth_blob *** nova.conf",
    ]


@pytest.mark.parametrize("shape", ["table", "json", "yaml", "csv", "value"])
def test_no_format_gives_a_secret_away(roost, conf, shape):
    done = roost("config", "show", "--config-file", conf, "-f", shape)
    assert (done.code, done.err) == (0, "")
    assert "hush" not in done.out


def test_only_what_is_set(roost, conf):
    records = roost("config", "show", "--set", "--config-file", conf, "-f", "json").record
    assert [each["option"] for each in records] == [
        "transport_url",
        "connection",
        "max_attempts",
        "attestation_auth_blob",
    ]


def test_only_options_of_a_name(roost):
    records = roost("config", "show", "notification", "-f", "json").record
    assert [(each["option"], each["value"]) for each in records] == [
        ("notification_format", "unversioned"),
        ("versioned_notifications_topics", ["versioned_notifications"]),
        ("shadow_notifications_pool", ""),
        ("shadow_notifications_topic", "roost_shadow"),
    ]


def test_the_table_says_how_many_are_set(roost, conf):
    out = roost("config", "show", "--config-file", conf).out
    assert f"4 set, {len(ALL) - 4} at their defaults" in out


def test_a_wrong_file_is_one_line(roost, conf):
    conf.write_text("[scheduler]\nworkers = -1\n")
    roost("config", "show", "--config-file", conf).assert_refused(
        "workers = -1: should be greater than or equal to 0"
    )


# --- sample ------------------------------------------------------------------------------------------


def test_the_sample_is_a_file_that_roost_itself_understands(roost, tmp_path):
    done = roost("config", "sample")
    assert (done.code, done.err) == (0, "")
    (tmp_path / "roost.conf").write_text(done.out)
    assert roost("config", "check", "--config-file", "roost.conf").code == 0
    for section, name in ALL:
        assert f"\n[{section}]\n" in done.out
        assert f"\n#{name} =" in done.out


def test_the_sample_for_programs(roost):
    records = roost("config", "sample", "-f", "json").record
    by_name = {(each["section"], each["option"]): each for each in records}
    assert len(records) == len(ALL)
    assert by_name["scheduler", "workers"]["default"] == 1
    assert by_name["scheduler", "workers"]["reloads"] is False
    assert by_name["scheduler", "max_attempts"]["old"] == ["[DEFAULT] scheduler_max_attempts"]


def test_the_sample_by_columns(roost):
    lines = roost("config", "sample", "-f", "value", "-c", "option", "-c", "default").out.splitlines()
    assert "max_attempts 3" in lines
