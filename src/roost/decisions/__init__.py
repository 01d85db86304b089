# SPDX-License-Identifier: Apache-2.0
"""Decisions in the database, and the states of the fleet that they were made from. Start reading at `recorder.py`.

| module | what it holds |
| --- | --- |
| `recorder.py` | records what a scheduler decides, beside its work |
| `table_changes.py` | what changes in a table between decisions, and checkpoints of all of it |
| `table_image.py`, `column_codecs.py` | a table as JSON data, and back |
| `records.py` | a decision as JSON data, and back |
| `store.py` | writes and reads all of that |
| `queries.py` | what clients ask about it |
| `pruning.py` | removes what is too old, or too much |
"""

from roost.decisions.options import DecisionOptions
from roost.decisions.pruning import prune_decisions
from roost.decisions.queries import DecisionQueries, describe_listed
from roost.decisions.recorder import FLUSH_SECONDS, DecisionRecorder, SeenState
from roost.decisions.records import DecisionRecord
from roost.decisions.store import DecisionStore, RecordedState, read_latest_options

__all__ = [
    "FLUSH_SECONDS",
    "DecisionOptions",
    "DecisionQueries",
    "DecisionRecord",
    "DecisionRecorder",
    "DecisionStore",
    "RecordedState",
    "SeenState",
    "describe_listed",
    "prune_decisions",
    "read_latest_options",
]
