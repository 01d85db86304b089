# SPDX-License-Identifier: Apache-2.0
"""The connection to a libvirt daemon: opened when it is needed, and again after it was lost; errors in one line.

Also live migration of one domain, from one daemon to another.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
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


def check_source(connection: Any, source: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """HypervisorError where guests of `source` cannot run here; both are `migration_address`es."""
    if not own.keys() <= source.keys():
        raise HypervisorError("its host has no libvirt: guests do not move live between kinds of hypervisors")
    if source["host_uuid"] == own["host_uuid"]:
        raise HypervisorError(f"{source['uri']} is this host: a guest cannot move to where it is")
    for name in ("arch", "hypervisor_type", "virt_type"):
        if source[name] != own[name]:
            raise HypervisorError(f"{name} of the guest's host is {source[name]}, and {own[name]} here")
    if source["hypervisor_version"] > own["hypervisor_version"]:
        versions = f"{source['hypervisor_version']}, which is newer than {own['hypervisor_version']} here"
        raise HypervisorError(f"hypervisor_version of the guest's host is {versions}")
    if source["cpu"] and connection.compareCPU(source["cpu"]) == load_library().VIR_CPU_COMPARE_INCOMPATIBLE:
        raise HypervisorError("the processor here lacks features of the one that the guest runs on")


def migrate(uuid: str, domain: Any, target: Mapping[str, Any], slows_down: bool) -> bool:
    """Move a domain to a target; True where the caller has to remove it here: an earlier call was interrupted.

    `domain`: None if it is not here any more, which is right if it runs on the target.
    """
    library = load_library()
    with connected_to(target["uri"]) as peer:
        runs_there = _runs_on(peer, uuid)
        if domain is None:
            if runs_there:
                return False
            raise HypervisorError(f"guest {uuid} is neither on this host nor running on {target['uri']}")
        if runs_there:
            if domain.state()[0] == library.VIR_DOMAIN_RUNNING:
                raise HypervisorError(f"guest {uuid} runs here and on {target['uri']}")
            return True
        flags = library.VIR_MIGRATE_LIVE | library.VIR_MIGRATE_UNDEFINE_SOURCE | library.VIR_MIGRATE_PERSIST_DEST
        if slows_down:
            flags |= library.VIR_MIGRATE_AUTO_CONVERGE
        where = {
            library.VIR_MIGRATE_PARAM_URI: target["migrate_uri"],
            library.VIR_MIGRATE_PARAM_LISTEN_ADDRESS: target["listen_address"],
        }
        domain.migrate3(peer, where, flags)
    return False


def _runs_on(peer: Any, uuid: str) -> bool:
    library = load_library()
    try:
        state, _ = peer.lookupByUUIDString(uuid).state()
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return False
        raise
    return bool(state == library.VIR_DOMAIN_RUNNING)
