# SPDX-License-Identifier: Apache-2.0
"""Options from files and from dicts, by nova's names. Which options there are is said by their owners."""

from roost.config.loader import Examined, examine, read_settings
from roost.config.settings import OptionChange, Settings, compare

__all__ = ["Examined", "OptionChange", "Settings", "compare", "examine", "read_settings"]
