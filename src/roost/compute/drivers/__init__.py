# SPDX-License-Identifier: Apache-2.0
"""Hypervisors behind one interface, `base.py`: `fake` and `libvirt`."""
