# SPDX-License-Identifier: Apache-2.0
"""Says why: for a request as a whole, and for one host. Start at `explaining.py`.

An explanation is computed on demand, from the table that a decision saw or would see. `explained_instance.py`: which
instance it is about, and its checks. `funnel.py`: the checks one after the other, as a placement asks them.
`blockers.py`: every check put to every host. `lifts.py` and `nearest_misses.py`: what would help.
"""
