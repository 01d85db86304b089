# SPDX-License-Identifier: Apache-2.0
"""A nova cloud in which Roost takes the place of nova-scheduler: `[roost] cloud = nova`.

`databases/` reads nova's databases, `placement/` speaks to placement, `cloud_check/` is
`roost cloud check`. Start reading at `cloud.py`.
"""
