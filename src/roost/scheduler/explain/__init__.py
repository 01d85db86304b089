# SPDX-License-Identifier: Apache-2.0
"""Says why: for a request as a whole, and for one host. Start at `explaining.py`.

An explanation is computed on demand, from the table that a decision saw or would see. `explained_instance.py`: which
instance it is about, and its checks. `funnel.py`: the checks one after the other, as a placement asks them.
`blockers.py`: every check put to every host. `lifts.py` and `nearest_misses.py`: what would help.
"""

from roost.scheduler.explain.blockers import Blockers, find_blockers
from roost.scheduler.explain.explained_instance import find_explained_instance
from roost.scheduler.explain.explaining import explain_host, explain_request, list_rejections
from roost.scheduler.explain.host_names import find_row, nearest_host
from roost.scheduler.explain.records import (
    Blocker,
    Explanation,
    FunnelStep,
    HostExplanation,
    HostScore,
    Lift,
    NearestMiss,
    Reason,
    Rejection,
    ScoreDifference,
    WeighedHost,
)
from roost.scheduler.explain.subjects import subject_of

__all__ = [
    "Blocker",
    "Blockers",
    "Explanation",
    "FunnelStep",
    "HostExplanation",
    "HostScore",
    "Lift",
    "NearestMiss",
    "Reason",
    "Rejection",
    "ScoreDifference",
    "WeighedHost",
    "explain_host",
    "explain_request",
    "find_blockers",
    "find_explained_instance",
    "find_row",
    "list_rejections",
    "nearest_host",
    "subject_of",
]
