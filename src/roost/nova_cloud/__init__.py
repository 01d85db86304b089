# SPDX-License-Identifier: Apache-2.0
"""Roost in the place of nova-scheduler: a running nova cloud as the source of the replica and as the ledger."""
