# SPDX-License-Identifier: Apache-2.0
"""The program `roost`, and `python -m roost`: its modules are loaded where Ctrl-C is handled already."""

from __future__ import annotations

import sys


def run() -> int:
    """Run the command that the arguments of the process name; returns its exit code, 130 after Ctrl-C."""
    try:
        from roost.cli.main import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(run())
