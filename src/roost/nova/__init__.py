# SPDX-License-Identifier: Apache-2.0
"""Roost in nova-scheduler's place: beside nova's databases and placement. Start reading at `backend.py`.

| what | where |
| --- | --- |
| the cloud that a scheduler serves there: its fleet, its claims | `backend.py`, `source.py`, `claims.py` |
| nova's API database and cells | `databases/` |
| placement, the ledger of a nova cloud | `placement/` |
| decide beside the live scheduler and compare | `shadow/` |
| what only schedulers from Icehouse to Liberty were asked | `icehouse/` |
| `roost cloud check`: all that is needed, tried without writing | `check.py`, `surveys.py` |
"""
