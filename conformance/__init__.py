# SPDX-License-Identifier: Apache-2.0
"""Roost beside the real nova, on fresh random cases: `make conformance SEED=1 N=1000`. Start reading at `run.py`."""
