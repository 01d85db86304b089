# SPDX-License-Identifier: Apache-2.0
"""Prefilter, capacity, filter, weigh, choose, claim. Start reading at `pipeline.py`."""
