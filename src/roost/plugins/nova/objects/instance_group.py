# SPDX-License-Identifier: Apache-2.0
"""nova.objects.instance_group."""

from roost.plugins.nova_objects import InstanceGroup

__all__ = ["InstanceGroup"]
