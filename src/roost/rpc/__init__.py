# SPDX-License-Identifier: Apache-2.0
"""Messages between services, in nova's form: over a broker with oslo.messaging, or within one process.

Importing this package is cheap: `open_transport` loads oslo.messaging where a broker is needed.
"""

from roost.rpc.context import RequestContext
from roost.rpc.in_process import InProcessTransport, Notification
from roost.rpc.interface import Endpoint, Notifier, RpcServer, Transport
from roost.rpc.open_transport import open_transport, try_connection
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
    "try_connection",
]
