# SPDX-License-Identifier: Apache-2.0
"""The program `roost`: loads its modules, which takes most of a second, where Ctrl-C is already handled."""

from __future__ import annotations


def run() -> int:
    """Run the command that the arguments of the process name; returns its exit code, 130 after Ctrl-C."""
    try:
        from roost.cli.main import main

        return main()
    except KeyboardInterrupt:
        return 130
