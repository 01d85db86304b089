# SPDX-License-Identifier: Apache-2.0
"""The folder of `roost dev`: one process at a time, and nothing is removed that it did not make."""

import json
import os
from pathlib import Path

import pytest

from roost.errors import BadInput
from roost.trial import state as state_directory
from roost.trial.state import DEV_LOCK, StateDirectory, temporary_state, write_json


def refusal(path, **more):
    with pytest.raises(BadInput) as found:
        StateDirectory.open(path, **more)
    line = str(found.value)
    assert "\n" not in line
    return line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder whose path is short enough for a socket in it, wherever tests run."""
    monkeypatch.setattr(state_directory, "LONGEST_PATH_BYTES", 4096)
    return tmp_path / "state"


def test_a_folder_is_made_for_its_user_alone_and_kept(folder):
    with StateDirectory.open(folder / "deep" / "down") as state:
        state.write_facts({"hosts": 20})
        assert state.path.stat().st_mode & 0o777 == 0o700
    with StateDirectory.open(folder / "deep" / "down") as state:
        assert state.read_facts()["hosts"] == 20


def test_a_folder_that_others_could_enter_is_closed_to_them_unless_it_is_of_something_else(folder, tmp_path):
    for path, name in ((folder, None), (tmp_path / "strange", "letter")):
        path.mkdir(mode=0o755)
        path.chmod(0o755)
        if name:
            (path / name).touch()
    StateDirectory.open(folder).close()
    refusal(tmp_path / "strange")
    assert [path.stat().st_mode & 0o777 for path in (folder, tmp_path / "strange")] == [0o700, 0o755]


def test_a_second_one_at_the_same_time_is_told_which_process_is_there(folder):
    with StateDirectory.open(folder):
        line = refusal(folder)
        assert f"another roost dev is running there, process {os.getpid()}" in line
        assert "another roost dev" in refusal(folder, is_fresh=True)
    StateDirectory.open(folder).close()


def test_fresh_removes_what_an_earlier_cloud_left(folder):
    with StateDirectory.open(folder) as state:
        state.write_facts({"hosts": 20})
        state.guest_folder.mkdir()
        (state.guest_folder / "guest.json").write_text("{}")
    with StateDirectory.open(folder, is_fresh=True) as state:
        assert state.read_facts() == {}
        assert [each.name for each in folder.iterdir()] == [DEV_LOCK]


def test_fresh_does_not_follow_a_link_out_of_the_folder(folder, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    StateDirectory.open(folder).close()
    (folder / "link").symlink_to(tmp_path / "mine")
    StateDirectory.open(folder, is_fresh=True).close()
    assert (tmp_path / "mine" / "letter").read_text() == "dear"


@pytest.mark.parametrize("is_fresh", [False, True])
def test_a_folder_of_something_else_is_left_alone(tmp_path, is_fresh):
    (tmp_path / "letter").write_text("dear")
    assert "not one of `roost dev`" in refusal(tmp_path, is_fresh=is_fresh)
    assert [each.name for each in tmp_path.iterdir()] == ["letter"]


def test_a_file_in_its_place_is_told(tmp_path):
    (tmp_path / "state").write_text("")
    assert "state is not a folder" in refusal(tmp_path / "state")


def test_a_folder_that_cannot_be_made_is_told():
    assert "/proc/roost: cannot be used" in refusal(Path("/proc/roost/dev"))


def test_a_path_that_is_too_long_for_a_socket_is_told_before_anything_is_made(tmp_path):
    assert "bytes too long for a socket" in refusal(tmp_path / ("x" * 120))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line_and_unlocks_the_folder(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", full)
        assert "No space left on device" in refusal(folder)
    StateDirectory.open(folder).close()


def test_state_of_a_newer_layout_is_refused_with_both_versions(folder):
    with StateDirectory.open(folder) as state:
        write_json(state.path / "cloud.json", {"format": 2, "roost": "9.0"})
    assert "made by Roost 9.0" in (line := refusal(folder))
    assert f"roost dev --fresh --state-dir {folder})" in line
    StateDirectory.open(folder, is_fresh=True).close()


def test_damaged_state_is_told(folder):
    with StateDirectory.open(folder) as state:
        (state.path / "cloud.json").write_text("{")
    assert f"is damaged (begin anew: roost dev --fresh --state-dir {folder})" in refusal(folder)


def test_the_command_to_begin_anew_names_the_folder_unless_it_is_the_usual_one(folder, monkeypatch):
    with StateDirectory.open(folder / "my cloud") as state:
        assert state.fresh_command == f"roost dev --fresh --state-dir '{folder}/my cloud'"
        monkeypatch.setenv("ROOST_DEV_STATE", str(folder / "my cloud"))
        assert state.fresh_command == "roost dev --fresh"


def test_temporary_state_is_removed(monkeypatch):
    with temporary_state() as state:
        path = state.path
        state.write_facts({"hosts": 20})
    assert not path.exists()


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path):
    write_json(tmp_path / "ready.json", {"socket": "a"})
    with pytest.raises(TypeError):
        write_json(tmp_path / "ready.json", {"socket": object()})
    assert json.loads((tmp_path / "ready.json").read_text()) == {"socket": "a"}
    assert [each.name for each in tmp_path.iterdir()] == ["ready.json"]


def test_a_file_in_a_folder_that_does_not_exist_is_told(tmp_path):
    with pytest.raises(BadInput, match=r"nowhere/ready.json: there is no folder /.*/nowhere \(make it first\)"):
        write_json(tmp_path / "nowhere" / "ready.json", {})
