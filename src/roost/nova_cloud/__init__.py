# SPDX-License-Identifier: Apache-2.0
"""Roost in the place of nova-scheduler in a running nova cloud: `[roost] cloud = nova`."""
