# SPDX-License-Identifier: Apache-2.0
"""The connection to a libvirt daemon: opened when it is needed, and again after it was lost; errors in one line."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from roost.errors import HypervisorError

Result = TypeVar("Result")


@cache
def load_library() -> Any:
    """The module `libvirt`; HypervisorError where it is not installed."""
    try:
        library: Any = importlib.import_module("libvirt")
    except ImportError as error:
        remedy = "install roost[libvirt]; it is compiled: libvirt-dev, pkg-config and a C compiler must be there"
        raise HypervisorError(f"the Python module of libvirt cannot be loaded: {error}", remedy) from error
    library.registerErrorHandler(lambda context, error: None, None)  # by default each error is printed to stderr
    return library


class Connection:
    """One libvirt daemon. Thread-safe, as libvirt's own connections are."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._lock, self._opened = Lock(), None

    def open(self) -> Any:
        """Libvirt's connection, opened unless it is; HypervisorError where that fails."""
        library = load_library()
        with self._lock:
            if self._opened is None:
                try:
                    self._opened = library.open(self.uri)
                except library.libvirtError as error:
                    remedy = "is the daemon running, and does [libvirt] connection_uri name it?"
                    raise HypervisorError(f"no connection to {self.uri}: {one_line(error)}", remedy) from error
            return self._opened

    def close(self) -> None:
        """Close the connection; one that is not open is no error."""
        with self._lock:
            opened, self._opened = self._opened, None
        _close_quietly(opened)

    def run(self, what: str, work: Callable[[Any], Result]) -> Result:
        """The result of `work(connection)`, which must be idempotent: it runs again if the connection was lost.

        `what`: begin of the message of the HypervisorError, such as "cannot start guest X".
        """
        library = load_library()
        opened = self.open()
        try:
            return work(opened)
        except library.libvirtError as error:
            if not is_lost(library, error):
                raise HypervisorError(f"{what}: {one_line(error)}") from error
            self._drop(opened)
        opened = self.open()
        with self.errors_as(what, opened):
            return work(opened)

    def run_once(self, what: str, work: Callable[[Any], Result]) -> Result:
        """The result of `work(connection)`; it does not run again if a connection is lost meanwhile."""
        opened = self.open()
        with self.errors_as(what, opened):
            return work(opened)

    @contextmanager
    def errors_as(self, what: str, opened: Any) -> Iterator[None]:
        """Raises errors of libvirt as HypervisorError; a lost connection is opened again by the next call."""
        library = load_library()
        try:
            yield
        except library.libvirtError as error:
            if is_lost(library, error):
                self._drop(opened)
            raise HypervisorError(f"{what}: {one_line(error)}") from error

    def _drop(self, opened: Any) -> None:
        """Forget a connection that was lost, unless another thread has opened a new one."""
        with self._lock:
            if self._opened is opened:
                self._opened = None
        _close_quietly(opened)


@contextmanager
def connected_to(uri: str) -> Iterator[Any]:
    """A connection to another host's daemon, closed at the end."""
    peer = Connection(uri)
    try:
        yield peer.open()
    finally:
        peer.close()


def is_lost(library: Any, error: Any) -> bool:
    """Whether an error says that the daemon is not reached any more."""
    return error.get_error_domain() in (library.VIR_FROM_RPC, library.VIR_FROM_REMOTE)


def one_line(error: Any) -> str:
    """The message of an error of libvirt, on one line."""
    return " ".join(str(error).split())


def _close_quietly(opened: Any) -> None:
    if opened is not None:
        try:
            opened.close()
        except load_library().libvirtError:
            return  # a connection whose daemon is gone
