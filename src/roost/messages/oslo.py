# SPDX-License-Identifier: Apache-2.0
"""Loads oslo.messaging, with threads, and gives it its options, by nova's names. No other module imports it.

The order of imports matters: oslo.service has to be set to threads before oslo.messaging is imported, or eventlet is
chosen. Loading takes about a second, so this module is imported only where a broker is needed.
[oslo_messaging_rabbit] and [oslo_messaging_notifications] are read by oslo.messaging itself, from the same files.

oslo.messaging can name queues after their process (`use_queue_manager`), so that a restarted service finds its queues
again. Two processes of the same name would share a queue, and each would get half of the casts to all servers.
oslo.messaging itself distinguishes only members of one process group: neither our workers, which have groups of their
own, nor two schedulers on a machine. So each process takes a number that no other process on the machine has.
"""

from __future__ import annotations

import fcntl
import logging
import os
import warnings
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from oslo_config import cfg

from roost.errors import OptionError
from roost.messages.options import RpcOptions

__all__ = [
    "ExpectedException",
    "NotificationDispatcher",
    "NotificationServer",
    "RPCServer",
    "impl_rabbit",
    "make_conf",
    "make_transport",
    "messaging",
    "name_process",
]


_held: dict[tuple[Path, str], int] = {}
"""Numbers that this process has taken. Each is a locked file that stays open until the process ends."""


def take_process_number(folder: Path, name: str) -> int:
    """The lowest number, from 1, that no other living process of this name has. `folder` holds the lock files."""
    if (folder, name) not in _held:
        _held[folder, name] = next(number for number in count(1) if _try_lock(folder / f"{name}.{number}.lock"))
    return _held[folder, name]


def ensure_process_group() -> None:
    """Make this process the leader of a new process group where the leader of its group has ended.

    oslo.messaging reads the leader's start time. A process that was started in the background by a shell that has
    ended is still in the group of that shell.
    """
    if not Path(f"/proc/{os.getpgrp()}").exists():
        os.setpgid(0, 0)


def _try_lock(file: Path) -> bool:
    """Lock the file until this process ends; returns False where another process holds the lock."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(file, os.O_CREAT | os.O_WRONLY, mode=0o600)
    except OSError as error:
        problem = f"[oslo_concurrency] lock_path: {file.parent} cannot be used: {error.strerror}"
        raise OptionError(problem, "name a folder that this user may write to") from None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return False
    return True


logging.getLogger("oslo_service.backend").setLevel(logging.WARNING)  # it logs twice that it loads threads
with warnings.catch_warnings():
    # futurist and oslo.utils import eventlet where it is installed, which warns that it is deprecated.
    warnings.filterwarnings("ignore", message="(?is).*eventlet")
    from oslo_service import backend

    if backend.get_backend_type() is None:
        backend.init_backend(backend.BackendType.THREADING)
    import oslo_messaging as messaging
    from oslo_concurrency import lockutils
    from oslo_messaging._drivers import amqp, impl_rabbit
    from oslo_messaging._metrics.client import oslo_messaging_metrics
    from oslo_messaging._tracing.client import oslo_messaging_tracing
    from oslo_messaging.notify.dispatcher import NotificationDispatcher
    from oslo_messaging.notify.listener import NotificationServer
    from oslo_messaging.rpc.dispatcher import ExpectedException
    from oslo_messaging.rpc.server import RPCServer
    from oslo_messaging.transport import _transport_opts

RABBIT = "oslo_messaging_rabbit"

DEFAULTS = {
    "rabbit_qos_prefetch_count": 16,  # a busy scheduler leaves the rest to others; 0 would take all messages
    "rabbit_retry_backoff": 1,  # with the next two: reconnects within seconds
    "rabbit_interval_max": 3,
    "kombu_reconnect_delay": 0.1,
    "processname": "roost",  # in names of queues, with use_queue_manager; default: the name of the script
    "kombu_missing_consumer_retry_timeout": 10,  # how long a reply to a caller that is gone takes a thread
}
"""Defaults of [oslo_messaging_rabbit] that differ from oslo.messaging's."""


def make_conf(options: RpcOptions, files: Sequence[Path]) -> cfg.ConfigOpts:
    """Configuration for oslo.messaging: its own sections from the files, URL and exchange from `options`."""
    conf = cfg.ConfigOpts()
    conf.register_opts(oslo_messaging_metrics, group="oslo_messaging_metrics")
    conf.register_opts(oslo_messaging_tracing, group="oslo_messaging_tracing")
    conf.register_opts(_transport_opts)
    rabbit_options = [*impl_rabbit.rabbit_opts, *amqp.amqp_opts]
    conf.register_opts(rabbit_options, group=RABBIT)
    conf.register_opt(cfg.StrOpt("lock_path", default=os.environ.get("OSLO_LOCK_PATH")), group="oslo_concurrency")
    for name, value in DEFAULTS.items():
        conf.set_default(name, value, group=RABBIT)
    try:
        conf(args=[], project="nova", default_config_files=[str(file) for file in files], default_config_dirs=[])
    except cfg.Error as error:
        raise OptionError(" ".join(str(error).split())) from None
    for each in rabbit_options:
        _check_value(conf, each.dest)
    if conf[RABBIT].use_queue_manager and not conf.oslo_concurrency.lock_path:
        problem = f"[{RABBIT}] use_queue_manager needs a folder for locks"
        raise OptionError(problem, "write [oslo_concurrency] lock_path: a folder that only this user may write to")
    conf.set_override("transport_url", options.transport_url)
    conf.set_override("control_exchange", options.control_exchange)
    return conf


def _check_value(conf: cfg.ConfigOpts, name: str) -> None:
    """OptionError for a value of the wrong type: it would show only with the first message."""
    try:
        conf[RABBIT][name]
    except cfg.Error as error:
        _, _, reason = str(error).partition("is not valid: ")
        raise OptionError(f"[{RABBIT}] {name}: {' '.join((reason or str(error)).split())}") from None


def name_process(conf: cfg.ConfigOpts) -> None:
    """With use_queue_manager, name this process uniquely on the machine: its queues are named after it."""
    if not conf[RABBIT].use_queue_manager:
        return
    folder, name = Path(conf.oslo_concurrency.lock_path), Path(conf[RABBIT].processname).name
    lockutils.set_defaults(str(folder))
    ensure_process_group()
    conf.set_override("processname", f"{name}.{take_process_number(folder, name)}", group=RABBIT)


def make_transport(conf: cfg.ConfigOpts) -> Any:
    """oslo.messaging's transport for calls, which connects when it is first used; OptionError for a wrong URL."""
    try:
        return messaging.get_rpc_transport(conf)
    except (messaging.InvalidTransportURL, messaging.DriverLoadFailure, RuntimeError, ValueError) as error:
        # Other errors may repeat the URL, with its password.
        shown = f": {error}" if isinstance(error, RuntimeError) else ""
        hint = "rabbit://USER:PASSWORD@HOST:PORT/VHOST"
        raise OptionError(f"[DEFAULT] transport_url or [{RABBIT}] cannot be used{shown}", hint) from None
