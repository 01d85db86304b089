# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy in front of a database that loses acknowledgements: a commit is done, and its answer never arrives."""

import contextlib
import random
import socket
import threading
from collections.abc import Callable

COMMIT = b"COMMIT"
ONE_STATEMENT = b'{"VCPU"'
"""In a claim that is one statement, and commits without saying so: its amounts."""
BUFFER = 65536


class AckProxy:
    """Forwards connections to a port. An answer that `loses` picks is read and dropped, and the connection closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.loses: Callable[[bytes], bool] = lambda request: False
        """Whether to lose the answer to these bytes of a client."""
        self.lost = 0
        """Answers that were lost."""
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next(self, words: bytes = COMMIT) -> None:
        """Lose the answer to the next request that contains these words, and to no other."""
        before = self.lost
        self.loses = lambda request: words in request and self.lost == before

    def lose_some(self, part: float, seed: int) -> None:
        """Lose this part of the answers to commits."""
        chance = random.Random(seed)
        self.loses = lambda request: (COMMIT in request or ONE_STATEMENT in request) and chance.random() < part

    def close(self) -> None:
        """Accept no more connections; open ones end with their clients."""
        self._listener.close()

    def __enter__(self) -> "AckProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as server:
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            is_lost = threading.Event()
            threading.Thread(target=self._answer, args=(server, client, is_lost), daemon=True).start()
            while request := client.recv(BUFFER):
                if self.loses(request):
                    self.lost += 1
                    is_lost.set()
                server.sendall(request)
            server.shutdown(socket.SHUT_RDWR)  # else the other thread would go on waiting for an answer

    def _answer(self, server: socket.socket, client: socket.socket, is_lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while answer := server.recv(BUFFER):
                if is_lost.is_set():
                    break
                client.sendall(answer)
        for each in (client, server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
