# SPDX-License-Identifier: Apache-2.0
"""The transport that the options ask for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roost.clock import Clock, SystemClock
from roost.errors import OptionError
from roost.rpc.in_process import InProcessTransport
from roost.rpc.interface import Transport
from roost.rpc.options import RpcOptions

IN_PROCESS = "in-process"
BROKERS = ("rabbit", "kombu")


def open_transport(options: RpcOptions, files: Sequence[Path] = (), clock: Clock | None = None) -> Transport:
    """`files`: config files, where oslo.messaging finds the sections that are its own.

    A broker that is away is no error here: it is found out, and waited for, when the first message is sent.
    """
    if _is_in_process(options):
        return InProcessTransport(clock, threads=options.executor_thread_pool_size)
    from roost.rpc.broker_transport import BrokerTransport  # takes a second: not before it is needed

    return BrokerTransport(options, files, clock or SystemClock())


def check_transport(options: RpcOptions, files: Sequence[Path] = ()) -> None:
    """OptionError where `open_transport` would say that it cannot be. Nothing is opened."""
    if not _is_in_process(options):
        from roost.rpc.oslo import make_conf, make_transport

        make_transport(make_conf(options, files)).cleanup()


def _is_in_process(options: RpcOptions) -> bool:
    """Or else on a broker; OptionError for an address that is neither."""
    scheme, separator, _ = options.transport_url.partition("://")
    if scheme not in (IN_PROCESS, *BROKERS) or not separator:
        shown = f"{scheme}://..." if separator else "(not shown: it may hold a password)"
        hint = "rabbit://USER:PASSWORD@HOST:PORT/VHOST, or in-process://"
        raise OptionError(f"[DEFAULT] transport_url: no messages can be sent to {shown}", hint)
    return scheme == IN_PROCESS
