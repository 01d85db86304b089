# SPDX-License-Identifier: Apache-2.0
"""oslo.messaging's private names: those that the source uses are those that ADR 0015 lists, and all of them exist.

Where a test here fails after a new release of oslo.messaging, look up in the ADR's table what the name was used for;
the tests on a real broker (tests/rpc) show whether what takes its place does that, too.
"""

import ast
import importlib
import importlib.metadata
import inspect
import re
import textwrap
from pathlib import Path

import pytest

from roost.messages import oslo

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "src/roost/messages").glob("*.py"))
ADR = next((ROOT / "docs/adr").glob("0015-*.md"))
LIBRARIES = ("oslo_messaging", "kombu", "amqp")
VERSION = importlib.metadata.version("oslo.messaging")

ROWS = re.findall(r"^\| `([\w.]+)` \| ([\w, ]+) \| (.+) \|$", ADR.read_text(encoding="utf-8"), re.MULTILINE)
"""Name (OWNER._name, or the dotted path of an import), modules that use it, defect that it works around."""

OWNERS = {
    "AMQPListener": "_drivers.amqpdriver",
    "Connection": "_drivers.impl_rabbit",
    "ConnectionLock": "_drivers.impl_rabbit",
    "ConnectionPool": "_drivers.pool",
    "Consumer": "_drivers.impl_rabbit",
    "MessageHandlingServer": "server",
    "NotificationServer": "notify.listener",
    "PollStyleListenerAdapter": "_drivers.base",
    "RabbitDriver": "_drivers.impl_rabbit",
    "RpcIncomingMessage": "_drivers.base",
    "RPCServer": "rpc.server",
    "RPCTransport": "transport",
}
"""Where the classes of the names are."""

SIGNATURES = {
    "Connection._ensure_publishing": "(self, method, exchange, msg, routing_key=None, timeout=None, retry=None, "
    "transport_options=None)",
    "Connection._heartbeat_check": "(self)",
    "Connection._heartbeat_thread_job": "(self)",
    "Connection._set_current_channel": "(self, new_channel)",
    "Connection.close": "(self)",
    "Connection.consume": "(self, timeout=None)",
    "Connection.declare_consumer": "(self, consumer)",
    "Connection.direct_send": "(self, msg_id, msg)",
    "Connection.ensure_connection": "(self)",
    "Connection.fanout_send": "(self, topic, msg, retry=None)",
    "Connection.stop_consuming": "(self)",
    "Connection.topic_send": "(self, exchange_name, topic, msg, timeout=None, retry=None, transport_options=None)",
    "ConnectionLock.for_heartbeat": "(self)",
    "Consumer._callback": "(self, message)",
    "Consumer.cancel": "(self, tag)",
    "NotificationServer.__init__": "(self, transport, targets, dispatcher, executor=None, allow_requeue=True, "
    "pool=None)",
    "NotificationServer._on_incoming": "(self, incoming)",
    "NotificationServer._process_incoming": "(self, incoming)",
    "RabbitDriver._get_connection": "(self, purpose='send', retry=None)",
    "RPCServer.__init__": "(self, transport, target, dispatcher, executor=None)",
    "RPCServer._on_incoming": "(self, incoming)",
    "RPCServer._process_incoming": "(self, incoming)",
    "RPCTransport._send": "(self, target, ctxt, message, wait_for_reply=None, timeout=None, "
    "call_monitor_timeout=None, retry=None, transport_options=None)",
    "RpcIncomingMessage.heartbeat": "(self)",
}
"""Of methods that are called or overridden: with other arguments they may mean something else."""

ATTRIBUTES = (
    "AMQPListener.conn",
    "Connection.channel",
    "Connection.connection",
    "Connection.max_retries",
    "ConnectionPool.connection_cls",
    "Consumer.callback",
    "Consumer.next_stream_offset",
    "Consumer.queue_name",
    "Consumer.rabbit_stream_fanout",
    "Consumer.type",
    "PollStyleListenerAdapter.cleanup",
    "RpcIncomingMessage.client_timeout",
    "RpcIncomingMessage.ctxt",
    "RpcIncomingMessage.message",
)
"""Without an underscore, but of classes in private modules."""


# --- the library ---------------------------------------------------------------------------------------


def is_found(name):
    """Whether the installed oslo.messaging has it: a dotted path, or OWNER.member."""
    owner, _, member = name.rpartition(".")
    if owner not in OWNERS:
        return is_importable(owner, member)
    return has_member(class_named(owner), member)


def is_importable(module, name):
    try:
        found = importlib.import_module(module)
        return hasattr(found, name) or bool(importlib.import_module(f"{module}.{name}"))
    except ImportError:
        return False


def class_named(owner):
    return getattr(importlib.import_module(f"oslo_messaging.{OWNERS[owner]}"), owner)


def has_member(cls, member):
    """Defined in the class or a base of it, or assigned to `self` in one of their methods."""
    return hasattr(cls, member) or any(member in names_assigned_in(each) for each in cls.__mro__[:-1])


def names_assigned_in(cls):
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):  # written in C
        return set()
    return {node.attr for node in ast.walk(tree) if is_attribute_of(node, "self") and isinstance(node.ctx, ast.Store)}


@pytest.mark.parametrize(("name", "where", "why"), ROWS, ids=[row[0] for row in ROWS])
def test_oslo_messaging_still_has_the_name(name, where, why):
    message = f"oslo.messaging {VERSION} has no {name}; messages/{where} uses it, because: {why} (ADR 0015)"
    assert is_found(name), message


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_private_classes_still_have_the_attribute(name):
    assert is_found(name), f"oslo.messaging {VERSION} has no {name}, which roost.messages uses (ADR 0015)"


@pytest.mark.parametrize(("name", "expected"), SIGNATURES.items(), ids=SIGNATURES)
def test_methods_still_take_the_same_arguments(name, expected):
    owner, _, member = name.rpartition(".")
    assert is_found(name), f"oslo.messaging {VERSION} has no {name} (ADR 0015)"
    found = str(inspect.signature(getattr(class_named(owner), member)))
    assert found == expected, (
        f"oslo.messaging {VERSION}: {name} takes other arguments; check its use in roost.messages"
    )


@pytest.mark.parametrize("options", [oslo.impl_rabbit.rabbit_opts, oslo.amqp.amqp_opts, oslo._transport_opts])
def test_options_are_still_lists_of_options(options):
    assert all(hasattr(each, "dest") for each in options)


# --- the source ----------------------------------------------------------------------------------------


class PrivateNames(ast.NodeVisitor):
    """Names with an underscore, of oslo.messaging's, kombu's and amqp's objects, that one module uses."""

    def __init__(self, module):
        self.found: set[str] = set()
        self._module = module
        self._class = None

    def visit_ImportFrom(self, node):
        for alias in node.names:
            path = f"{node.module}.{alias.name}"
            if path.startswith(LIBRARIES) and any(is_private(part) for part in path.split(".")):
                self.found.add(path)

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name.startswith(LIBRARIES) and any(is_private(part) for part in alias.name.split(".")):
                self.found.add(alias.name)

    def visit_ClassDef(self, node):
        outer, self._class = self._class, node
        self.generic_visit(node)
        self._class = outer

    def visit_FunctionDef(self, node):
        if self._class is not None and is_private(node.name) and self._is_of_a_library(node.name):
            self.found.add(node.name)  # overridden
        self.generic_visit(node)

    def visit_Attribute(self, node):
        if is_private(node.attr) and not (is_attribute_of(node, "self", "cls") and self._is_ours(node.attr)):
            self.found.add(node.attr)
        self.generic_visit(node)

    def _is_ours(self, name):
        return name in names_defined_in(self._class) and not self._is_of_a_library(name)

    def _is_of_a_library(self, name):
        cls = getattr(self._module, self._class.name, None)
        bases = [each for each in getattr(cls, "__mro__", ()) if each.__module__.startswith(LIBRARIES)]
        return any(name in vars(each) or name in names_assigned_in(each) for each in bases)


def is_private(name):
    return name.startswith("_") and not name.endswith("__") and name not in ("_replace", "_asdict")


def is_attribute_of(node, *names):
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names


def names_defined_in(tree):
    """Methods and class attributes, and what is assigned to `self`."""
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    defined |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    defined |= {name.id for node in tree.body if isinstance(node, ast.Assign) for name in node.targets}
    return defined | {
        node.attr for node in ast.walk(tree) if is_attribute_of(node, "self") and isinstance(node.ctx, ast.Store)
    }


def private_names_in(path):
    names = PrivateNames(importlib.import_module(f"roost.messages.{path.stem}"))
    names.visit(ast.parse(path.read_text(encoding="utf-8")))
    return names.found


def listed_name(name):
    """As `PrivateNames` finds it: without its class."""
    owner, _, member = name.rpartition(".")
    return member if owner in OWNERS else name


def test_the_decision_lists_every_private_name_with_the_modules_that_use_it():
    listed = {(listed_name(name), module) for name, where, _ in ROWS for module in where.split(", ")}
    used = {(name, path.stem) for path in SOURCES if path.stem != "__init__" for name in private_names_in(path)}
    assert used - listed == set(), "new uses of private names: add them to ADR 0015, with the defect, or do without"
    assert listed - used == set(), "no longer used: take them out of ADR 0015"


def test_every_overridden_method_has_its_signature_recorded():
    overridden = set()
    for path in SOURCES:
        module = importlib.import_module(f"roost.messages.{path.stem}")
        for cls in vars(module).values():
            if inspect.isclass(cls) and cls.__module__ == module.__name__:
                overridden |= overridden_methods(cls)
    assert overridden <= set(SIGNATURES), "record the signatures of these"
    assert "Connection.consume" in overridden


def overridden_methods(cls):
    bases = [each for each in cls.__mro__[1:] if each.__module__.startswith("oslo_messaging")]
    names = {name for name, member in vars(cls).items() if inspect.isfunction(member)}
    return {f"{bases[0].__name__}.{name}" for name in names for each in bases if name in vars(each)}
