# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy in front of a server, which can be taken away and come back."""

import contextlib
import socket
import threading


class TcpProxy:
    """Forwards connections to a port of this machine."""

    def __init__(self, port):
        self._target, self._sockets, self._lock = port, set(), threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._accept_in_thread()

    def down(self):
        """Refuse connections, and close those that are open."""
        self._shut(self._listener)
        with self._lock:
            found, self._sockets = self._sockets, set()
        for each in found:
            self._shut(each)

    def up(self):
        """Listen on the same port again."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._accept_in_thread()

    def _accept_in_thread(self):
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._sockets |= {client, server}
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    def _copy(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        self._shut(source)
        self._shut(target)
        with self._lock:
            self._sockets -= {source, target}

    @staticmethod
    def _shut(each):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
