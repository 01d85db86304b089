# SPDX-License-Identifier: Apache-2.0
"""nova.objects.flavor."""

from roost.compat.objects import Flavor

__all__ = ["Flavor"]
