# SPDX-License-Identifier: Apache-2.0
"""Opens the transport that [DEFAULT] transport_url names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roost.clock import Clock, SystemClock
from roost.errors import OptionError
from roost.messages.in_process import InProcessTransport
from roost.messages.interface import Transport
from roost.messages.options import RpcOptions

IN_PROCESS = "in-process"
BROKERS = ("rabbit", "kombu")


def open_transport(options: RpcOptions, files: Sequence[Path] = (), clock: Clock | None = None) -> Transport:
    """The transport for these options. `files`: config files with oslo.messaging's own sections.

    OptionError where they are wrong. A broker that is away is no error before the first message is sent.
    """
    if _is_in_process(options):
        return InProcessTransport(clock, threads=options.executor_thread_pool_size)
    from roost.messages.broker import BrokerTransport  # takes a second to import

    return BrokerTransport(options, files, clock or SystemClock())


def check_transport(options: RpcOptions, files: Sequence[Path] = ()) -> None:
    """OptionError where `open_transport` would raise one. Nothing is opened."""
    if not _is_in_process(options):
        from roost.messages.oslo import make_conf, make_transport

        make_transport(make_conf(options, files)).cleanup()


def try_connection(options: RpcOptions, files: Sequence[Path] = ()) -> None:
    """Connect to the broker once, and declare nothing there; RpcUnreachable if that fails, OptionError as above."""
    if not _is_in_process(options):
        from roost.messages.broker import connect_once

        connect_once(options, files)


def _is_in_process(options: RpcOptions) -> bool:
    """Whether the transport is in-process, and not on a broker; OptionError for a URL that is neither."""
    scheme, separator, _ = options.transport_url.partition("://")
    if scheme not in (IN_PROCESS, *BROKERS) or not separator:
        shown = f"{scheme}://..." if separator else "(not shown: it may hold a password)"
        hint = "rabbit://USER:PASSWORD@HOST:PORT/VHOST, or in-process://"
        raise OptionError(f"[DEFAULT] transport_url: no messages can be sent to {shown}", hint)
    return scheme == IN_PROCESS
