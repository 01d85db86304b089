# SPDX-License-Identifier: Apache-2.0
"""nova.scheduler.host_manager: the class of hosts, for type hints and isinstance."""

from roost.hosts.view import HostView as HostState

__all__ = ["HostState"]
