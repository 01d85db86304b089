# SPDX-License-Identifier: Apache-2.0
"""Shared by all tests: generated examples are the same on every machine, so that red is red everywhere."""

from hypothesis import settings

settings.register_profile("same-everywhere", derandomize=True, deadline=None)
settings.load_profile("same-everywhere")
