# SPDX-License-Identifier: Apache-2.0
"""The file beside the filters."""

NAMES = ("a1",)
