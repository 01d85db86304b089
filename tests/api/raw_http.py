# SPDX-License-Identifier: Apache-2.0
"""Bytes to the API, as no client of HTTP would send them, and what comes back."""

import socket
import time


def talk(port, *pieces, pause=0.0, patience=5.0):
    """What the server sends back for these bytes, until it closes the connection or says no more."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as line:
        for piece in pieces:
            try:
                line.sendall(piece)
            except OSError:
                break
            time.sleep(pause)
        received = b""
        try:
            while chunk := line.recv(65536):
                received += chunk
                if b"\r\n\r\n" in received and b'"message"' in received:
                    break
        except (TimeoutError, ConnectionError):
            pass
        return received.decode("latin-1")


def status_of(answer):
    return int(answer.split(" ", 2)[1]) if answer else None
