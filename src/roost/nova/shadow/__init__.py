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
