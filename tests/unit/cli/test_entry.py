# SPDX-License-Identifier: Apache-2.0
"""The entry point of `roost`: Ctrl-C while its modules are still being loaded."""

import runpy
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

import roost


class Interrupted:
    """An importer that is interrupted when the commands are loaded."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "roost.cli.main":
            raise KeyboardInterrupt


@pytest.fixture
def interrupted(monkeypatch):
    monkeypatch.delitem(sys.modules, "roost.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted, *sys.meta_path])


def test_ctrl_c_while_modules_are_loaded_is_no_traceback_but_exit_code_130(interrupted, capsys):
    (script,) = entry_points(group="console_scripts", name="roost")
    assert script.load()() == 130
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_is_the_same_for_python_m_roost(interrupted, capsys):
    sys.modules.pop("roost.__main__", None)
    with pytest.raises(SystemExit, match="130"):
        runpy.run_module("roost", run_name="__main__")
    assert capsys.readouterr() == ("", "")


def test_the_package_alone_loads_nothing_that_takes_time():
    program = "import sys, roost.__main__; print(sorted({'numpy', 'sqlalchemy', 'rich', 'cliff'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_all_public_names_of_the_package_exist():
    assert [name for name in roost.__all__ if getattr(roost, name).__name__ != name] == []
    with pytest.raises(AttributeError, match="module 'roost' has no attribute 'Flet'"):
        _ = roost.Flet
