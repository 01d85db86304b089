# SPDX-License-Identifier: Apache-2.0
"""nova.servicegroup: which services are up."""

from typing import Any

__all__ = ["API"]


class API:
    """Service state from the scheduler's replica of the fleet, independent of the configured driver."""

    def __init__(self, *unused: Any, **also_unused: Any) -> None:
        pass

    def service_is_up(self, service: Any) -> bool:
        """Whether a service is up. `service`: `host_state.service`, or an element of `ServiceList`."""
        return bool(service["up"])
