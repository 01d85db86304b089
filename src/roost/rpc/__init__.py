# SPDX-License-Identifier: Apache-2.0
"""Messages between services: nova's, over oslo.messaging, or within one process.

Importing this is cheap: oslo.messaging is loaded when a broker is first needed (`opening.py`).
"""

from roost.rpc.context import RequestContext
from roost.rpc.in_process import InProcessTransport, Notification
from roost.rpc.interface import Endpoint, Notifier, RpcServer, Transport
from roost.rpc.open_transport import open_transport
from roost.rpc.options import RpcOptions
from roost.rpc.scheduler_client import SchedulerClient
from roost.rpc.wire_errors import nova_failure

__all__ = [
    "Endpoint",
    "InProcessTransport",
    "Notification",
    "Notifier",
    "RequestContext",
    "RpcOptions",
    "RpcServer",
    "SchedulerClient",
    "Transport",
    "nova_failure",
    "open_transport",
]
