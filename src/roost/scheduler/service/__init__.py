# SPDX-License-Identifier: Apache-2.0
"""The scheduler as a service: `process.py` assembles it, `endpoints.py` lists the methods, `manager.py` answers."""
