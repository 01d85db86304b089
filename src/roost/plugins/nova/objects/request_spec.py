# SPDX-License-Identifier: Apache-2.0
"""nova.objects.request_spec."""

from roost.model.request import RequestSpec

__all__ = ["RequestSpec"]
