# SPDX-License-Identifier: Apache-2.0
"""--config-file and --config-dir are the same for every command."""

import pytest


@pytest.fixture
def conf_d(tmp_path):
    """A folder whose last file has the last word."""
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "10-first.conf").write_text(
        "[database]\nconnection = sqlite:///first.db\n[scheduler]\nmax_attempts = 0\n"
    )
    (folder / "20-last.conf").write_text(
        "[database]\nconnection = sqlite:///last.db\n[scheduler]\nmax_attempts = 4\n"
    )
    (folder / "30-off.conf.off").write_text("rubbish")
    return folder


def test_db_takes_a_folder(roost, conf_d, tmp_path):
    assert roost("db", "upgrade", "--config-dir", conf_d).code == 0
    assert [path.name for path in tmp_path.glob("*.db")] == ["last.db"]


def test_place_takes_a_folder(place, conf_d):
    record = place("--flavor", "small", "--config-dir", conf_d, "-f", "json").record
    assert len(record["selections"][0]["alternates"]) == 3


def test_a_folder_comes_after_the_files_wherever_it_stands(roost, conf_d, tmp_path):
    (tmp_path / "nova.conf").write_text("[scheduler]\nmax_attempts = 9\n")
    show = ("config", "show", "max_attempts", "-f", "value", "-c", "value", "-c", "from")
    for arguments in (("--config-dir", "conf.d", "--config-file", "nova.conf"), ("--config-dir", "conf.d")):
        assert roost(*show, *arguments).out == "4 conf.d/20-last.conf\n"


@pytest.mark.parametrize("command", [("db", "check"), ("config", "show"), ("config", "check")])
def test_a_folder_that_is_not_there_is_one_line(roost, command):
    roost(*command, "--config-dir", "nowhere").assert_refused("nowhere: cannot be read: No such file or directory")
