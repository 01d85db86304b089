# SPDX-License-Identifier: Apache-2.0
"""The scheduler's replica of the fleet: `host_manager.py` keeps it up to date from the database."""
