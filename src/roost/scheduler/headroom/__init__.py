# SPDX-License-Identifier: Apache-2.0
"""How many more instances of a request fit: counted by placing one after the other on a copy of the table.

Start reading at `counting.py`.
"""

from roost.scheduler.headroom.counting import count_headroom
from roost.scheduler.headroom.host_groups import AVAILABILITY_ZONE
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
    "count_headroom",
]
