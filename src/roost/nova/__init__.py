# SPDX-License-Identifier: Apache-2.0
"""Tries, without writing, all that a scheduler in a nova cloud needs: `roost cloud check`.

Start reading at `check.py`: it runs a survey of each connection, in parallel, and then compares what they found.

| what | where |
| --- | --- |
| one row of the answer | `probe_result.py` |
| nova's API database and cells: connection, tables, rights | `database_survey.py` |
| placement: endpoint, version, token, providers | `placement_survey.py` |
| the broker; filters and weighers | `configuration_probes.py` |
| hosts, providers, versions and schedulers, compared across connections | `comparisons.py` |
"""
