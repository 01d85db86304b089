# SPDX-License-Identifier: Apache-2.0
"""Compares Roost with the real nova on random cases: `make conformance SEED=1 N=1000`. Start at `run.py`."""
