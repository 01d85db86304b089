# SPDX-License-Identifier: Apache-2.0
"""Questions about a fleet that change nothing, as commands and the API ask them: each answer has one form as JSON.

| module | what it holds |
| --- | --- |
| `capacity.py` | how many more servers fit |
| `past_decision.py` | why a recorded decision came out as it did |
| `planned_requests.py` | requests by the words of commands |
| `plan.py` | where several requests would go, one after the other |
"""
