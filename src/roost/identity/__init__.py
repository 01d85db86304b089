# SPDX-License-Identifier: Apache-2.0
"""Who calls the API: users, projects, roles, tokens. Start reading at `caller.py`."""

from roost.identity.caller import Caller

__all__ = ["Caller"]
