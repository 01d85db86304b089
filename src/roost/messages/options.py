# SPDX-License-Identifier: Apache-2.0
"""Options of messages, by nova's names.

[oslo_messaging_rabbit] and [oslo_messaging_notifications] are read by oslo.messaging itself, from the same files.
"""

from __future__ import annotations

from dataclasses import dataclass

from roost.options.declare import option

GROUP = "DEFAULT"


@dataclass(frozen=True)
class RpcOptions:
    """Where the broker is, and how long a caller waits for an answer."""

    transport_url: str = option(
        "rabbit://",
        group=GROUP,
        reloads=False,
        secret=True,
        in_fleet=False,
        help="URL of the broker: rabbit://USER:PASSWORD@HOST:PORT/VHOST, or in-process:// for one process alone",
    )
    control_exchange: str = option(
        "nova", group=GROUP, reloads=False, in_fleet=False, help="exchange under which the services find each other"
    )
    rpc_response_timeout: int = option(
        60,
        min=1,
        group=GROUP,
        reloads=False,
        help="seconds to wait for an answer, or for a heartbeat where an answer takes long",
    )
    long_rpc_timeout: int = option(
        1800, min=1, group=GROUP, reloads=False, help="seconds to wait for the answer to a request that may take long"
    )
    executor_thread_pool_size: int = option(
        64,
        min=1,
        group=GROUP,
        reloads=False,
        old=("rpc_thread_pool_size",),
        help="requests that a process works on at the same time",
    )
    scheduler_topic: str = option(
        "scheduler", group=GROUP, reloads=False, in_fleet=False, help="name of the queue that schedulers share"
    )
    conductor_topic: str = option(
        "conductor",
        group="conductor",
        name="topic",
        reloads=False,
        in_fleet=False,
        help="name of the queue that conductors share",
    )
    compute_topic: str = option(
        "compute",
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="begin of the names of the queues of agents: the queue of a host is COMPUTE_TOPIC.HOST",
    )
    scheduler_version: str | None = option(
        None,
        group="upgrade_levels",
        reloads=False,
        name="scheduler",
        in_fleet=False,
        help="newest message version to send to schedulers, as a number or as the name of a release of nova",
    )

    def __repr__(self) -> str:
        """All values but the URL, which may hold a password."""
        return f"RpcOptions({vars(self) | {'transport_url': '***'}})"
