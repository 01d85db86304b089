# SPDX-License-Identifier: Apache-2.0
"""The ledger: who holds what of which node. Start reading at `ledger.py`."""

from roost.claims.claim import Claim, StrictGroup
from roost.claims.ledger import Ledger
from roost.model.consumers import Use

__all__ = ["Claim", "Ledger", "StrictGroup", "Use"]
