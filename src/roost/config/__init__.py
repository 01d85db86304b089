# SPDX-License-Identifier: Apache-2.0
"""Options from files and from dicts, by nova's names. Which options there are is said by their owners."""

from roost.config.reading import Examined, examine, read_settings
from roost.config.settings import Change, Settings, compare

__all__ = ["Change", "Examined", "Settings", "compare", "examine", "read_settings"]
