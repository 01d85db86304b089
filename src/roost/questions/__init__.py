# SPDX-License-Identifier: Apache-2.0
"""Answers questions about a fleet: why a request fits or not, how many more fit, and what if things were different.

Start reading at `explain.py`. An explanation is computed on demand, from the table that a decision saw or would see:
`funnel.py` puts the checks one after the other, as a placement does; `blockers.py` puts every check to every host;
`explain.py` also says what would come nearest. `counting.py` counts how many more fit, `what_if.py` changes the fleet
first.
"""
