# SPDX-License-Identifier: Apache-2.0
"""Calls of other processes of one user to a development cloud on this machine, over a Unix socket.

The socket is in the cloud's state directory, by default below the user's own; folders of this kind are made, claimed
and locked here too. One JSON object per line in each direction, of bounded size and depth. Only listed methods are
forwarded. There is no TCP port; the socket has mode 0600.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shlex
import socket
import socketserver
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from roost.errors import BadInput, MessageError, RemoteFailure, RoostError, RpcTimeout, RpcUnreachable
from roost.messages.context import MAX_BYTES, RequestContext, decode, encode_request
from roost.messages.dispatcher import from_wire
from roost.messages.interface import CallingTransport

OTHER_FOLDER = "choose another --state-dir"
"""What to do about a folder that cannot be used."""


def user_state_folder(environment: Mapping[str, str] = os.environ, usual: Path | None = None) -> Path:
    """$XDG_STATE_HOME; where that is not set, or not a full path: `usual`, by default ~/.local/state."""
    named = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(named):
        return Path(named)
    return usual or Path(os.path.expanduser("~"), ".local", "state")


def with_state_dir(command: str, folder: Path, usual: Path) -> str:
    """The command for this folder: with --state-dir, unless it is the usual one."""
    path = os.path.abspath(folder)
    return command if path == os.path.abspath(usual) else f"{command} --state-dir {shlex.quote(path)}"


def claim_folder(path: Path, command: str, mode: int, lock_name: str, is_ours: Callable[[], bool]) -> None:
    """Make the folder if there is none. BadInput if it cannot be used, or has files that are not those of `command`.

    `is_ours`: whether one that has more files than a lock is.
    """
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        names = sorted(each.name for each in path.iterdir() if each.name != lock_name)
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"{path} is not a folder", OTHER_FOLDER) from None
    except OSError as error:
        raise BadInput(f"{error.filename or path}: cannot be used: {error.strerror}", OTHER_FOLDER) from None
    if names and not is_ours():
        problem = f"{path} has other files, such as {names[0]}: it is not one of `{command}`"
        raise BadInput(problem, "choose an empty or new --state-dir")


def take_lock(file: Path, refusal: Callable[[str], BadInput]) -> int:
    """Lock a file and write our pid to it; returns its descriptor, whose closing unlocks it.

    `refusal` makes the error where another process has it, given the pid of that process.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        pid = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise refusal(pid) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_in_one_step(file: Path, text: str) -> None:
    """Write a file that only its user can read: a reader sees all of it, or what was there before."""
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as target:
            target.write(text)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise


VARIABLE = "ROOST_DEV_STATE"
"""Environment variable that names the state directory, for `roost dev` and for its clients."""
SOCKET_NAME = "roost.sock"
LONGEST_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux, without the byte that ends it."""
CONNECT_SECONDS = 2.0


def default_state_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of `roost dev`: $ROOST_DEV_STATE, or else roost/dev below $XDG_STATE_HOME or ~/.local/state."""
    if chosen := environment.get(VARIABLE):
        return Path(chosen)
    return user_state_folder(environment) / "roost" / "dev"


def find_dev_cloud(state_directory: Path | None = None) -> Path | None:
    """The socket of the cloud that `roost dev` runs in a state directory (default: the user's); None if none runs."""
    path = (state_directory or default_state_directory()) / SOCKET_NAME
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except (OSError, ValueError):  # no file, no server behind it, no right to use it, a path that is too long
            return None
    return path


MAX_REPLY_BYTES = 256 * 1024 * 1024
"""Size of a reply that is read; a list of a thousand servers has a hundredth of it."""
_OWN_ERRORS = {each.__name__: each for each in (RpcTimeout, RpcUnreachable, MessageError)}
"""Errors of the transport behind the socket, which are the caller's own, by name."""


class LoopbackTransport:
    """A `Caller` over a Unix socket. Each call has a connection of its own, so that threads may share it."""

    def __init__(self, path: Path) -> None:
        """`path`: the socket; see `find_dev_cloud`."""
        self.path = path

    def call(
        self,
        topic: str,
        method: str,
        version: str,
        args: Mapping[str, Any],
        context: RequestContext,
        timeout: float,
        heartbeat_timeout: float | None = None,
    ) -> Any:
        """Have a service of the cloud run the method; returns its result, or raises an RpcError."""
        message: dict[str, Any] = {"topic": topic, "method": method, "version": version, "args": dict(args)}
        message |= {"context": context.to_dict(), "timeout": timeout}
        line = encode_request(message, f"{method}: an argument").encode() + b"\n"
        with self._connect() as connection:
            try:
                reply = _exchange(connection, line, timeout)
            except TimeoutError:
                raise RpcTimeout(f"{method} on {topic}: no answer within {timeout:g} seconds") from None
            except OSError as error:
                raise RpcTimeout(f"{method} on {topic}: the development cloud went away: {error.strerror}") from None
        if not reply:
            raise RpcTimeout(f"{method} on {topic}: the development cloud went away before it answered")
        return _result_of(reply)

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(CONNECT_SECONDS)
            connection.connect(os.fspath(self.path))
        except OSError as error:
            connection.close()
            problem = f"the development cloud at {self.path} cannot be reached: {error.strerror or error}"
            raise RpcUnreachable(problem, "start it: roost dev") from None
        return connection

    def close(self) -> None:
        """Nothing stays open between calls."""


def _exchange(connection: socket.socket, line: bytes, timeout: float) -> bytes:
    """Send a line and read the reply; empty where the other side closed the connection instead."""
    deadline = time.monotonic() + timeout
    connection.settimeout(timeout)
    with suppress(BrokenPipeError, ConnectionResetError):  # closed before it has read the line: its reply says why
        connection.sendall(line)
    reply = bytearray()
    while not reply.endswith(b"\n"):
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connection.recv(1 << 16)
        reply += part
        if not part or len(reply) > MAX_REPLY_BYTES:
            return b""
    return bytes(reply)


def _result_of(reply: bytes) -> Any:
    answer = decode(reply, max_bytes=None)
    if not isinstance(answer, dict):
        raise MessageError(f"the reply cannot be understood: {json.dumps(answer)[:200]}")
    failure = answer.get("failure")
    if not failure:
        return answer.get("result")
    own = _OWN_ERRORS.get(str(failure.get("class"))) if isinstance(failure, dict) else None
    raise own(str(failure.get("message"))) if own else from_wire(failure)


LOG = logging.getLogger(__name__)
MAX_CONNECTIONS = 64
IDLE_SECONDS = 60.0
"""How long a client may take for the next byte of a request, and to take its reply."""
STOP_POLL_SECONDS = 0.1
"""Interval at which the thread checks whether the server was stopped."""
DEFAULT_TIMEOUT_SECONDS, LONGEST_TIMEOUT_SECONDS = 60.0, 1800.0


class LoopbackServer:
    """Answers from threads of its own, between `start` and `stop`."""

    def __init__(self, path: Path, transport: CallingTransport, allowed: Mapping[str, Collection[str]]) -> None:
        """Makes the socket; one that a dead process left there is replaced. `allowed`: topic -> methods.

        BadInput where the socket cannot be made.
        """
        self.path = path
        self._server = _listen(path, transport, allowed)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(STOP_POLL_SECONDS,), name="loopback", daemon=True
        )

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more, end connections, and remove the socket. May be called twice."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.end_connections()
        self.path.unlink(missing_ok=True)


def answer_line(line: bytes, transport: CallingTransport, allowed: Mapping[str, Collection[str]]) -> bytes:
    """The reply to one line, itself a line. Never fails: whatever is wrong with the line is its reply."""
    try:
        form = {"result": _forward(line, transport, allowed), "failure": None}
        return json.dumps(form).encode() + b"\n"
    except Exception as error:
        if not isinstance(error, RoostError):
            LOG.error("a call over the loopback socket failed", exc_info=error)
        return _failure_line(error)


def _forward(line: bytes, transport: CallingTransport, allowed: Mapping[str, Collection[str]]) -> Any:
    message = decode(line)
    if not isinstance(message, dict):
        raise MessageError("a call is a JSON object", "one per line")
    topic, method, version = (_text_in(message, name) for name in ("topic", "method", "version"))
    if method not in allowed.get(topic, ()):
        raise MessageError(f"{method[:60]!r} of {topic[:60]!r} cannot be called over this socket")
    args, context = message.get("args", {}), message.get("context", {})
    if not isinstance(args, dict) or not isinstance(context, dict):
        raise MessageError(f"{method}: arguments and context are JSON objects")
    timeout = message.get("timeout", DEFAULT_TIMEOUT_SECONDS)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise MessageError(f"{method}: the timeout is no number")
    seconds = min(max(float(timeout), 0.0), LONGEST_TIMEOUT_SECONDS)
    return transport.call(topic, method, version, args, RequestContext.from_dict(context), seconds)


def _text_in(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str):
        raise MessageError(f"a call has a {name}, which is a text")
    return value


def _failure_line(error: Exception) -> bytes:
    return json.dumps({"result": None, "failure": _failure_form(error)}).encode() + b"\n"


def _failure_form(error: Exception) -> dict[str, Any]:
    """An error in oslo.messaging's form; one that a service replied with keeps its class name."""
    if isinstance(error, RemoteFailure):
        kwargs = {"reason": error.reason, "summary": error.summary, "hint": error.hint}
        return {"class": error.name, "message": error.message, "kwargs": kwargs, "tb": list(error.traceback)}
    return {"class": type(error).__name__, "message": str(error)}


def _too_many_connections() -> RpcUnreachable:
    problem = f"too many connections to the development cloud ({MAX_CONNECTIONS} at most)"
    return RpcUnreachable(problem, "try again when other commands have ended")


class _BoundedUnixServer(socketserver.ThreadingUnixStreamServer):
    """One thread per connection, and a bounded number of them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, path: str, transport: CallingTransport, allowed: Mapping[str, Collection[str]]) -> None:
        self.transport, self.allowed = transport, allowed
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        super().__init__(path, _Handler)

    def server_bind(self) -> None:
        """Bind with mode 0600 from the first moment on."""
        before = os.umask(0o177)
        try:
            super().server_bind()
        finally:
            os.umask(before)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection; where there are too many, say so and close it."""
        with self._lock:
            is_free = len(self._open) < MAX_CONNECTIONS
            if is_free:
                self._open.add(request)
        if is_free:
            super().process_request(request, client_address)
            return
        with suppress(OSError):  # the client has closed it
            request.send(_failure_line(_too_many_connections()), socket.MSG_DONTWAIT)
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close the connection."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """Interrupt the reads of all connections, whose threads then end."""
        with self._lock:
            for each in self._open:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:  # the client has closed it
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnected or was too slow is no error of the service."""
        LOG.debug("loopback: a connection ended early", exc_info=True)


class _Handler(socketserver.StreamRequestHandler):
    """One connection: a reply for each line, until the client closes it or sends a line that is too long."""

    server: _BoundedUnixServer
    timeout = IDLE_SECONDS

    def handle(self) -> None:
        """Answer line after line."""
        while line := self.rfile.readline(MAX_BYTES + 2):
            self.wfile.write(answer_line(line, self.server.transport, self.server.allowed))
            if not line.endswith(b"\n"):
                return


def _listen(path: Path, transport: CallingTransport, allowed: Mapping[str, Collection[str]]) -> _BoundedUnixServer:
    name = os.fspath(path)
    if len(os.fsencode(name)) > LONGEST_PATH_BYTES:
        problem = f"{name}: a socket's path has at most {LONGEST_PATH_BYTES} bytes, this one {len(os.fsencode(name))}"
        raise BadInput(problem, "choose a shorter --state-dir")
    try:
        if path.is_socket():
            path.unlink()
        return _BoundedUnixServer(name, transport, allowed)
    except OSError as error:
        hint = "another program made it" if error.errno == errno.EADDRINUSE else "choose another --state-dir"
        raise BadInput(f"{name}: the socket cannot be made: {error.strerror}", hint) from None
