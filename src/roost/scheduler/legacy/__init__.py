# SPDX-License-Identifier: Apache-2.0
"""What only schedulers from Icehouse to Liberty were asked, such as run_instance. Start reading at `methods.py`."""

from roost.scheduler.json_options import JsonOptionsFile
from roost.scheduler.legacy.methods import LegacyMethods

__all__ = ["JsonOptionsFile", "LegacyMethods"]
