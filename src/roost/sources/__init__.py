# SPDX-License-Identifier: Apache-2.0
"""Fleets in files: fleet files, which people write, and snapshots of a cloud. Start at `fleet_file.py`."""
