# SPDX-License-Identifier: Apache-2.0
"""nova.objects.service."""

from roost.plugins.nova_objects import Service, ServiceList

__all__ = ["Service", "ServiceList"]
