# SPDX-License-Identifier: Apache-2.0
"""Folders with the state of a cloud: `roost dev` and `roost cluster` look for, claim and lock theirs alike."""

import os
from pathlib import Path

import pytest

from roost.errors import BadInput
from roost.messages.loopback import default_state_directory, take_lock, write_in_one_step
from roost.trial.state import StateDirectory, StateFolder, default_state_folder


@pytest.mark.parametrize("named", ["relative", "", None])
def test_without_a_full_path_in_xdg_state_home_both_are_below_the_home(monkeypatch, named):
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.delenv("ROOST_DEV_STATE", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    if named is not None:
        monkeypatch.setenv("XDG_STATE_HOME", named)
    assert default_state_directory() == Path("/home/u/.local/state/roost/dev")
    assert default_state_folder() == Path("/home/u/.local/state/roost/cluster")


@pytest.mark.parametrize("claim", [StateDirectory.open, lambda path: StateFolder(path).claim()])
def test_a_file_is_told_to_be_no_folder_and_a_strange_file_by_its_name(tmp_path, claim):
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(BadInput, match=r"letter is not a folder \(choose another --state-dir\)"):
        claim(tmp_path / "letter")
    with pytest.raises(BadInput, match=r"has other files, such as letter: it is not one of `roost (dev|cluster)`"):
        claim(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["letter"]


def test_a_lock_that_is_held_is_refused_with_the_pid_of_its_process(tmp_path):
    held = take_lock(tmp_path / "lock", BadInput)
    with pytest.raises(BadInput, match=str(os.getpid())):
        take_lock(tmp_path / "lock", BadInput)
    os.close(held)
    os.close(take_lock(tmp_path / "lock", BadInput))


def test_a_file_is_written_for_its_user_alone_and_leaves_no_other(tmp_path):
    write_in_one_step(tmp_path / "facts", "old")
    write_in_one_step(tmp_path / "facts", "new")
    assert (tmp_path / "facts").read_text() == "new"
    assert (tmp_path / "facts").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["facts"]
