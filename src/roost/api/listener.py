# SPDX-License-Identifier: Apache-2.0
"""The socket on which the API takes connections, in a module that loads no HTTP server."""

from __future__ import annotations

import errno
import socket

from roost.api.options import ApiOptions
from roost.errors import OptionError

BACKLOG = 1024
"""Connections that may wait until they are taken."""
NO_ADDRESS = "name an address of this machine"
_REMEDIES = {
    errno.EADDRINUSE: "another program listens there, perhaps another Roost: stop it, or set another port",
    errno.EACCES: "ports below 1024 are for root: set another port",
}
"""Number of an error -> what to do."""


def open_listener(options: ApiOptions) -> socket.socket:
    """A socket that listens at the address of the options; OptionError where that cannot be."""
    address, port = options.osapi_compute_listen, options.osapi_compute_listen_port
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise OptionError(f"[DEFAULT] osapi_compute_listen: {address[:60]!r}: {error.strerror}", NO_ADDRESS) from None
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. Without, a body waits 40 ms for the client to acknowledge the head of the answer.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        hint = _REMEDIES.get(error.errno or 0, NO_ADDRESS)
        raise OptionError(f"[DEFAULT] osapi_compute_listen_port: {address}:{port}: {error.strerror}", hint) from None
    return listener
