# SPDX-License-Identifier: Apache-2.0
"""A whole cloud to try, on one machine: in one process (`roost dev`) or in many (`roost cluster`).

Start reading at `dev_cloud.py` for the one, at `plan.py` and `cluster.py` for the other.
"""
