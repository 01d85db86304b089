# SPDX-License-Identifier: Apache-2.0
"""Shadow mode: decide beside the live scheduler, claim nothing, and say where the choices differ.

Start reading at `service.py`.

| what | where |
| --- | --- |
| the process: it answers requests as ever, and gives the hosts back at once | `service.py` |
| a decision, with what was thought of every host at that moment; a granter that claims nothing | `trial.py` |
| the live scheduler's requests, and where they went | `live_requests.py` |
| comparison of the two choices, its record, file, log line and metrics, and the summary of a file | `comparison.py` |
"""
