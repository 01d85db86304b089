# SPDX-License-Identifier: Apache-2.0
"""The ledger: who holds what of which node. Start reading at `ledger.py`."""

from roost.claims.claim import Claim, StrictGroup, Use
from roost.claims.ledger import Ledger

__all__ = ["Claim", "Ledger", "StrictGroup", "Use"]
