# SPDX-License-Identifier: Apache-2.0
"""The fleet in the database: import and export, reports of agents, and the reader behind every replica."""
