# SPDX-License-Identifier: Apache-2.0
"""nova.servicegroup: which services are alive."""

from typing import Any

__all__ = ["API"]


class API:
    """Asks the picture of the fleet, whatever driver is configured."""

    def __init__(self, *unused: Any, **also_unused: Any) -> None:
        pass

    def service_is_up(self, service: Any) -> bool:
        """Whether the agent behind a service record, a host's or one of `ServiceList`, is alive."""
        return bool(service["up"])
