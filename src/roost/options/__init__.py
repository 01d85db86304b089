# SPDX-License-Identifier: Apache-2.0
"""Options by nova's names: declared beside their owners, read from files, environment and mappings, and reported.

Start at `declare.py`.
"""
