# SPDX-License-Identifier: Apache-2.0
"""Shadow mode: decide beside the live scheduler, claim nothing, and say where the choices differ.

| what | where |
| --- | --- |
| a granter that claims nothing | `dry_granter.py` |
| a decision, with what was thought of every host at that moment | `trial.py`, `host_review.py` |
| the live scheduler's requests, and where they went | `live_requests.py` |
| comparison of the two choices | `comparison.py` |
| the record of a request, its file, log line and metrics | `record.py`, `journal.py` |
| the summary of a file of records | `summary.py` |
"""

from roost.scheduler.shadow.comparison import compare_choices, compare_failure, record_of_topic
from roost.scheduler.shadow.dry_granter import DryGranter
from roost.scheduler.shadow.host_review import HostReview
from roost.scheduler.shadow.journal import Journal
from roost.scheduler.shadow.live_requests import EVENT_TYPES, LiveRequests
from roost.scheduler.shadow.record import VERDICTS, ShadowRecord, Verdict, read_records
from roost.scheduler.shadow.summary import Summary, Times, summarise
from roost.scheduler.shadow.trial import RecordingChooser, Trial

__all__ = [
    "EVENT_TYPES",
    "VERDICTS",
    "DryGranter",
    "HostReview",
    "Journal",
    "LiveRequests",
    "RecordingChooser",
    "ShadowRecord",
    "Summary",
    "Times",
    "Trial",
    "Verdict",
    "compare_choices",
    "compare_failure",
    "read_records",
    "record_of_topic",
    "summarise",
]
