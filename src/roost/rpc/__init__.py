# SPDX-License-Identifier: Apache-2.0
"""Messages between services, in nova's form: over a broker with oslo.messaging, or within one process.

Importing this package is cheap: `open_transport` loads oslo.messaging where a broker is needed.
"""

from roost.rpc.context import RequestContext
from roost.rpc.in_process import InProcessTransport
from roost.rpc.interface import Caller, Endpoint, Notification, Notifier, RpcServer, Transport
from roost.rpc.loopback_address import find_dev_cloud
from roost.rpc.loopback_client import LoopbackTransport
from roost.rpc.open_transport import open_transport, try_connection
from roost.rpc.options import RpcOptions
from roost.rpc.scheduler_client import SchedulerClient
from roost.rpc.wire_errors import nova_failure

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
