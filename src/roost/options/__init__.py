# SPDX-License-Identifier: Apache-2.0
"""Reads options, by nova's names, from config files, the environment and mappings. Their owners declare them."""
