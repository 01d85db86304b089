# SPDX-License-Identifier: Apache-2.0
"""The ledger: which consumer has which resources of which node. Start reading at `ledger.py`.

| question | where |
| --- | --- |
| which operations are there | `operations.py`: claim, release, moves |
| where are nodes and groups locked | `nodes.py`, `groups.py`; in one order by `load_unit_of_work` in `ledger.py` |
| where is a claim checked against capacity | `Node.check_capacity` in `nodes.py` |
| where is a claim idempotent | `is_idempotent_repeat` in `operations.py` |
| where is a move idempotent | `Move.is_done` in `operations.py` |
| where is decided which kind of move it is | not here: `roost.scheduler.rounds` |
| where is a slot of an anti-affinity group taken | `take_slot` in `groups.py` |
| where do concurrent claims share a commit | `GroupCommit` in `ledger.py` |
| where are conflicts retried | `Ledger._commit_with_retries` in `ledger.py` |
| where is a failed operation rolled back | `UndoLog` in `claim.py` |
| what is written, and under which conditions | `write_back.py` |
| where are leaks found and fixed | `audit.py`; what is looked for: `audits.py` |
"""
