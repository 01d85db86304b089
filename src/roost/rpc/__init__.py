# SPDX-License-Identifier: Apache-2.0
"""The former name of what is in `roost.messages` now; it goes with the release after the next."""

import warnings

from roost.messages.context import RequestContext
from roost.messages.dispatcher import nova_failure
from roost.messages.in_process import InProcessTransport
from roost.messages.interface import Endpoint, Notification, Notifier, RpcServer, Transport
from roost.messages.loopback import LoopbackTransport, find_dev_cloud
from roost.messages.open_transport import open_transport, try_connection
from roost.messages.options import RpcOptions
from roost.messages.scheduler_client import SchedulerClient
from roost.records.tokens import Caller

__all__ = [
    "Caller",
    "Endpoint",
    "InProcessTransport",
    "LoopbackTransport",
    "Notification",
    "Notifier",
    "RequestContext",
    "RpcOptions",
    "RpcServer",
    "SchedulerClient",
    "Transport",
    "find_dev_cloud",
    "nova_failure",
    "open_transport",
    "try_connection",
]

warnings.warn("roost.rpc is called roost.messages now", DeprecationWarning, stacklevel=2)
