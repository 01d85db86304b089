# SPDX-License-Identifier: Apache-2.0
"""How many more instances of a request fit, on a copy of the table: by dividing what is free, or by placing them.

Start reading at `counting.py`.
"""

from roost.scheduler.headroom.alike import headroom_key
from roost.scheduler.headroom.counting import count_headroom
from roost.scheduler.headroom.host_groups import AVAILABILITY_ZONE, check_group_key
from roost.scheduler.headroom.record import GroupHeadroom, Headroom, HostHeadroom, HostLoss, Shortage
from roost.scheduler.headroom.trial import MOST_PLACED, Progress, Trial, Trials

__all__ = [
    "AVAILABILITY_ZONE",
    "MOST_PLACED",
    "GroupHeadroom",
    "Headroom",
    "HostHeadroom",
    "HostLoss",
    "Progress",
    "Shortage",
    "Trial",
    "Trials",
    "check_group_key",
    "count_headroom",
    "headroom_key",
]
