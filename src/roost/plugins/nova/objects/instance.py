# SPDX-License-Identifier: Apache-2.0
"""nova.objects.instance."""

from roost.plugins.nova_objects import Instance, InstanceList

__all__ = ["Instance", "InstanceList"]
