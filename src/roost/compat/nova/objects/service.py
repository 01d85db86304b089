# SPDX-License-Identifier: Apache-2.0
"""nova.objects.service."""

from roost.compat.objects import Service, ServiceList

__all__ = ["Service", "ServiceList"]
