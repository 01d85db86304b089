# SPDX-License-Identifier: Apache-2.0
"""Trust levels of nodes, from an attestation service. Start reading at `trust.py`."""

from roost.attestation.client import AttestationClient, AttestationOptions
from roost.attestation.trust import UNKNOWN, TrustLevels

__all__ = ["UNKNOWN", "AttestationClient", "AttestationOptions", "TrustLevels"]
