# SPDX-License-Identifier: Apache-2.0
"""Stand-in for nova where none is installed: modules that are loaded under nova's names and only re-export."""
