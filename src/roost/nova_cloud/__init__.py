# SPDX-License-Identifier: Apache-2.0
"""A nova cloud in which Roost takes the place of nova-scheduler: `[roost] cloud = nova`.

`databases/` reads nova's databases, `placement/` speaks to placement. Start reading at `cloud.py`.
"""
