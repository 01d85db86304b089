# SPDX-License-Identifier: Apache-2.0
"""A fleet from a file: hosts, aggregates, flavors, images, server groups, options. Start reading at `fleet.py`."""

from roost.fleet.fleet import Fleet

__all__ = ["Fleet"]
