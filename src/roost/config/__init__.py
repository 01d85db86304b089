# SPDX-License-Identifier: Apache-2.0
"""Options from files and from dicts, by nova's names. Which options there are is said by their owners."""

from roost.config.reading import Settings, read_settings

__all__ = ["Settings", "read_settings"]
