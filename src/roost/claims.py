# SPDX-License-Identifier: Apache-2.0
"""The former name of what is in `roost.ledger` now; it goes with the release after the next."""

import warnings

from roost.ledger.claim import Claim, HeldNode, StrictGroup
from roost.ledger.ledger import Ledger
from roost.model.resources import Use

__all__ = ["Claim", "HeldNode", "Ledger", "StrictGroup", "Use"]

warnings.warn("roost.claims is called roost.ledger now", DeprecationWarning, stacklevel=2)
