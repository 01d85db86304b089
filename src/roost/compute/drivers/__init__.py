# SPDX-License-Identifier: Apache-2.0
"""Hypervisors behind one interface, and a fake one. Start reading at `base.py`: what an agent needs of them."""
