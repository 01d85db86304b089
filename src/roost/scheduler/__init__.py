# SPDX-License-Identifier: Apache-2.0
"""Chooses hosts: prefilter, capacity, filter, weigh, choose, claim. Read `pipeline.py` first, then `manager.py`.

`pipeline.py` is pure: one loop over the instances of a request. Around it are a replica of the fleet, the claim loop,
drivers and the process.
"""
