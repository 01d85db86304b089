# SPDX-License-Identifier: Apache-2.0
"""nova.objects.aggregate."""

from roost.plugins.nova_objects import Aggregate, AggregateList

__all__ = ["Aggregate", "AggregateList"]
