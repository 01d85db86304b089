# SPDX-License-Identifier: Apache-2.0
"""Answers for nova where none is installed. Loaded under nova's own names, these modules only name things."""
