# SPDX-License-Identifier: Apache-2.0
"""Reads options, by nova's names, from config files, the environment and mappings. Their owners declare them."""

from roost.config.loader import Examined, examine, read_settings
from roost.config.settings import OptionChange, Settings, compare

__all__ = ["Examined", "OptionChange", "Settings", "compare", "examine", "read_settings"]
