# SPDX-License-Identifier: Apache-2.0
"""nova.objects.instance."""

from roost.compat.objects import Instance, InstanceList

__all__ = ["Instance", "InstanceList"]
