# SPDX-License-Identifier: Apache-2.0
"""Runs the command `roost` as `python -m roost`."""

import sys

from roost.entry import run

sys.exit(run())
