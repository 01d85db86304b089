# SPDX-License-Identifier: Apache-2.0
"""nova.objects.flavor."""

from roost.model.flavor import Flavor

__all__ = ["Flavor"]
