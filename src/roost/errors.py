# SPDX-License-Identifier: Apache-2.0
"""All exceptions that Roost raises deliberately.

    RoostError
    ├── BadInput                invalid input from outside; nothing was changed
    │   ├── FieldError          a value that its field does not accept
    │   │   └── ImagePropertyError   a property of an image (model/image_property_values.py)
    │   ├── FleetError          a fleet file, with file, line and field
    │   ├── SnapshotError       a file that is no snapshot, or not one that this version of Roost can read
    │   ├── OptionError         an option, with section, name and value
    │   │   └── DatabaseAddressError   a malformed or unsupported database address
    │   ├── RuleError           a rule that cannot be applied to this request, such as "at least abc"
    │   │   └── HostFault       a rule that cannot be applied to what a host reports
    │   ├── NumaRequestError    a flavor or image that requests an impossible topology (model/cpu_policy.py)
    │   ├── PciAliasError       a malformed or undefined PCI alias (model/pci.py)
    │   ├── PluginNotFound      a filter or weigher that cannot be found or loaded
    │   ├── IllegalStep         something that is not possible in the present state of a server
    │   ├── UnknownName         a flavor, image, group, zone or instance that does not exist
    │   ├── Conflict            a change that contradicts what is there, such as a name that is taken
    │   └── UnsupportedPolicy   a server group whose policy no enabled plugin enforces
    ├── AccessError             a caller of the API is refused; nothing was changed
    │   ├── SignInRefused       wrong user, password, credential or project
    │   ├── TokenRefused        no token, or one that is unknown, expired or revoked
    │   ├── Forbidden           the caller's roles do not allow it
    │   └── TooManyAttempts     too many failed sign-ins lately: wait
    ├── ServiceUnavailable      a service of the cloud cannot do it now, for want of what it needs: try again
    ├── IdentityUnavailable     Keystone does not answer, so no token can be checked
    ├── ApiError                the API of a cloud gave an answer that is not expected
    │   └── ApiUnavailable      it cannot be reached, or cannot answer now; it may have been executed
    ├── DatabaseError           the database cannot be used, permanently or for now
    │   ├── DatabaseUnreachable    no connection, or the connection broke
    │   ├── DatabaseRefused     the database denies access: password, privileges, unknown database
    │   ├── DatabaseReadOnly    the database is read-only
    │   ├── DatabaseFull        no space left in the database
    │   ├── DatabaseConflict    deadlock or serialization failure: expected, retry
    │   ├── NoReadableCell      no cell of a nova cloud can be read, so there are no hosts
    │   └── SchemaError         the schema is not that of this version of Roost
    ├── PlacementError          placement cannot be used, or gave an answer that is not expected
    │   ├── PlacementUnavailable   no answer, lost connection, status 5xx: it may have been executed
    │   ├── PlacementRefused    placement or keystone denies access: credentials, rights
    │   ├── PlacementBadRequest    placement does not understand what a flavor asks for (status 400)
    │   ├── PlacementNotFound   a resource provider or consumer that placement does not have
    │   └── PlacementConflict   status 409: capacity, generation or consumer; expected, choose again
    ├── RpcError                a message was not delivered, or its reply is invalid
    │   ├── RpcUnreachable      no broker, or no server for the topic: nothing was executed
    │   │   └── BrokerUnreachable   no broker: it is worth waiting for
    │   ├── RpcTimeout          no reply in time; the request may have been executed
    │   ├── MessageError        a message that cannot be decoded, or a value that cannot be encoded
    │   ├── UnsupportedVersion  a message version that the server, or the configured cap, does not allow
    │   │   └── SelectionObjectsWithOldRPCVersionNotSupported   Selection objects need version 4.5
    │   └── RemoteFailure       the server replied with an error; has its class name
    │       └── RemoteNoValidHost   the request is valid, no host fits
    ├── ServerChanged           the record of a server is not the one that was read: another process was faster
    ├── ProcessFailed           a process of a cluster ended, or does not become ready
    ├── ServerFailed            a server did not become what was asked for
    ├── PartlyChanged           a change was begun, and what belongs to it was refused or cannot be seen
    ├── HypervisorError         a hypervisor refuses something, or cannot be reached
    ├── ComputeResourcesUnavailable   an agent's host has no room for a server, whatever the scheduler thought
    ├── ClaimRejected           another scheduler claimed first: expected, choose again; names hosts and reasons
    ├── AlreadyClaimed          a consumer has allocations other than those claimed for it, or seen before a move
    ├── NoValidHost             the request is valid, no host fits; carries the Decision
    ├── PluginFailed            a plugin raised; names the plugin and the host
    ├── NumaUsageError          usage that the NUMA cells of a host cannot hold (hosts/numa.py)
    └── PciUnavailable          the free devices of a host do not satisfy the requests (hosts/pci.py)

Each class has a stable `code` (for programs) and a `hint` (one sentence on what to do).

Remedies for plugins that fail, when they are loaded or when they run, for reasons typical of plugins of nova.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.machinery import PathFinder
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from roost.model.decision import Decision


PAGE = "docs/how-to/plugins-of-nova.md lists what there is"
CONVERT = "convert it to Python 3, for instance with 2to3 or modernize, and look at it again"
_REGISTER = "take it out, or have the plugin register the option itself"
_MOVE_OUT = "Roost answers for nova where there is none: move files of your own out of a folder of that name"

PYTHON_2_MODULES = frozenset(
    "__builtin__ commands ConfigParser cPickle cStringIO httplib Queue StringIO urllib2 urlparse xmlrpclib".split()
)
PYTHON_2_NAMES = frozenset("basestring file long raw_input reduce unichr unicode xrange".split())
PYTHON_2_METHODS = frozenset("has_key iteritems iterkeys itervalues".split())
_PYTHON_2_MESSAGES = (
    "Missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer",
    "inconsistent use of tabs",
    "ur'",
)
_PYTHON_2_LINES = (
    r"^\s*print\s+[^(=]",
    r"^\s*exec\s+['\"\w]",
    r"<>",
    r"^\s*raise\s+\w+\s*,",
    r"\bur['\"]",
    r"\b0[0-7]+\b",
    r"\b\d+L\b",
)
_NO_ATTRIBUTE = re.compile(r"module 'nova[\w.]*' has no attribute")


class SiblingImport(NamedTuple):
    """An import of a file that lies beside the importing one, as Python 2 allowed in packages."""

    name: str
    file: str
    is_in_package: bool

    @property
    def remedy(self) -> str:
        """How Python 3 finds the file."""
        if self.is_in_package:
            return f"Python 3 imports a file of the same package by `from . import {self.name}`"
        return f"import {self.name} at the top of the plugin: folders of plugins are searched while it is loaded"


def remedy_for(cause: BaseException) -> str:
    """A hint for an exception that a plugin raised; empty where no remedy is known."""
    if isinstance(cause, SyntaxError):
        return CONVERT if is_python_2_syntax(cause) else f"if it is written for Python 2, {CONVERT}"
    if uses_python_2(cause):
        return f"it is written for Python 2: {CONVERT}"
    if is_unknown_option(cause):
        return _REGISTER
    if sibling := find_sibling_import(cause):
        return sibling.remedy
    if lacks_name_of_nova(cause):
        return _MOVE_OUT if isinstance(cause, ModuleNotFoundError) and other_nova() else PAGE
    return ""


def uses_python_2(cause: BaseException) -> bool:
    """Whether an error is due to a module, name or method that Python 3 no longer has."""
    if isinstance(cause, AttributeError):
        return cause.name in PYTHON_2_METHODS
    if isinstance(cause, ModuleNotFoundError):
        return cause.name in PYTHON_2_MODULES
    return isinstance(cause, NameError) and cause.name in PYTHON_2_NAMES


def is_python_2_syntax(cause: SyntaxError) -> bool:
    """Whether the line that cannot be parsed looks like Python 2."""
    by_message = any(sign in str(cause.msg) for sign in _PYTHON_2_MESSAGES)
    return by_message or any(re.search(sign, cause.text or "") for sign in _PYTHON_2_LINES)


def is_unknown_option(cause: BaseException) -> bool:
    """Whether a plugin asked for an option that is not registered."""
    cfg: Any = sys.modules.get("oslo_config.cfg")  # imported only if plugins use it
    return cfg is not None and isinstance(cause, cfg.NoSuchOptError)


def lacks_name_of_nova(cause: BaseException) -> bool:
    """Whether a plugin uses a module or name of nova that does not exist."""
    if isinstance(cause, AttributeError):
        return _NO_ATTRIBUTE.search(str(cause)) is not None
    return isinstance(cause, ImportError) and (cause.name or "").partition(".")[0] == "nova"


def other_nova() -> str:
    """The folder of an imported `nova` package that is not Roost's (a real one, or a user's); empty if none."""
    places = list(getattr(sys.modules.get("nova"), "__path__", ()))  # Roost's has no folder
    return str(places[0]) if places else ""


def find_sibling_import(cause: BaseException) -> SiblingImport | None:
    """The import of a file beside the importing one that failed; None for any other error."""
    name, importer = getattr(cause, "name", None), _importing_frame(cause.__traceback__)
    if not isinstance(cause, ModuleNotFoundError) or not name or importer is None:
        return None
    found = PathFinder.find_spec(name, [str(importer["__file__"]).rpartition("/")[0]])
    return SiblingImport(name, found.origin, bool(importer.get("__package__"))) if found and found.origin else None


def _importing_frame(traceback: TracebackType | None) -> dict[str, Any] | None:
    """The globals of the innermost module in a traceback that has a file, leaving out importlib and Roost."""
    found = None
    while traceback is not None:
        names = traceback.tb_frame.f_globals
        if names.get("__file__") and str(names.get("__name__")).partition(".")[0] not in ("importlib", "roost"):
            found = names
        traceback = traceback.tb_next
    return found


class RoostError(Exception):
    """Base class of all exceptions that Roost raises deliberately."""

    code = "roost.error"
    """Stable identifier for programs."""
    hint = ""
    """One sentence on what to do; may be empty."""
    is_lasting = False
    """Whether neither time nor another try can help: first, somebody has to change something."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        if hint:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class BadInput(RoostError):
    """Invalid input from outside; nothing was changed."""

    code = "roost.bad_input"
    is_lasting = True


class FieldError(BadInput):
    """A value that its field does not accept. `field` is the path, such as `flavors[0].vcpus`."""

    code = "roost.bad_input.field"

    def __init__(self, field: str, problem: str, hint: str = "") -> None:
        super().__init__(f"{field}: {problem}" if field else problem, hint)
        self.field = field
        self.problem = problem

    def at(self, field: str) -> FieldError:
        """A copy of this error that names another path."""
        return FieldError(field, self.problem, self.hint)

    def under(self, parent: str) -> FieldError:
        """A copy of this error whose path begins at the record that holds the field."""
        separator = "" if not self.field or self.field.startswith("[") else "."
        return self.at(f"{parent}{separator}{self.field}")


class FleetError(BadInput):
    """An invalid fleet file; the message names file, line and field."""

    code = "roost.bad_input.fleet"


class SnapshotError(BadInput):
    """A file that is no snapshot, is damaged or too large, or has a newer schema; the message names the file."""

    code = "roost.bad_input.snapshot"


class OptionError(BadInput):
    """An unknown option, or a value that the option does not accept."""

    code = "roost.bad_input.option"
    nova_type = "ValueError"


class DatabaseAddressError(OptionError):
    """A malformed or unsupported database address. The message omits the address, which may hold a password."""

    code = "roost.bad_input.option.database_address"


class RuleError(BadInput):
    """A built-in filter or weigher met a value that it cannot process; the request fails, as it does in nova."""

    code = "roost.bad_input.rule"

    def __init__(self, rule: str, problem: str, nova_type: str = "ValueError", hint: str = "") -> None:
        super().__init__(f"{rule}: {problem}", hint)
        self.nova_type = nova_type
        """Name of the exception class with which nova fails here."""


class HostFault(RuleError):
    """A filter or weigher met a value reported by a host that it cannot process; the client cannot fix it."""

    code = "roost.bad_input.host"


class PluginNotFound(BadInput):
    """A plugin that cannot be found or imported, or is not of the expected class."""

    code = "roost.bad_input.plugin"


class UnknownName(BadInput):
    """A request names a flavor, image, group, zone, host or instance that does not exist."""

    code = "roost.bad_input.name"


class Conflict(BadInput):
    """A change that contradicts what is there: a name that is taken, a thing that is in use. Nothing was changed."""

    code = "roost.bad_input.conflict"


class UnsupportedPolicy(BadInput):
    """A server group whose policy no enabled filter or weigher enforces."""

    code = "roost.bad_input.policy"


class NoValidHost(RoostError):
    """No host fits the request. `decision` says what rejected the hosts."""

    code = "roost.no_valid_host"

    def __init__(self, decision: Decision) -> None:
        Exception.__init__(self, decision)
        self.decision = decision
        self.rounds = 1
        """How often hosts were chosen: more than once where another scheduler claimed them first."""
        self.seen: Any = None
        """The state of the fleet that was chosen from, where a scheduler records it."""

    @cached_property
    def message(self) -> str:  # type: ignore[override] # mypy takes a cached_property for read-only
        """The summary of the decision; computed on access, as it takes a fifth of the time of a request."""
        return self.decision.summary

    def __repr__(self) -> str:
        return f"NoValidHost({self.message!r})"


class Refusal(NamedTuple):
    """A node on which a claim was rejected, and the reason."""

    host: str
    node: str
    reason: str
    group_uuid: str = ""
    """The strict server group that no further member of can be on the host; empty for any other reason."""
    is_deleted: bool = False
    """The node was deleted; `host` and `node` are its uuid."""


class ClaimRejected(RoostError):
    """A claim that no longer fits. Nothing of it was claimed; the replica is stale for the nodes in `refusals`."""

    code = "roost.claim_rejected"

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        first = refusals[0]
        more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
        super().__init__(f"host {first.host}: {first.reason}{more}")
        self.refusals = tuple(refusals)


class AlreadyClaimed(RoostError):
    """A consumer that has allocations other than expected, on `hosts`; empty if it has none."""

    code = "roost.already_claimed"

    def __init__(self, consumer_uuid: str, hosts: Sequence[str]) -> None:
        held = f"resources on {', '.join(hosts)} already" if hosts else "nothing any more"
        super().__init__(f"consumer {consumer_uuid} holds {held}", "release or move it")
        self.consumer_uuid, self.hosts = consumer_uuid, tuple(hosts)


class DatabaseError(RoostError):
    """The database cannot be used, permanently or for now. No transaction was partly written."""

    code = "roost.database"


class DatabaseUnreachable(DatabaseError):
    """The database does not answer at its address, or the connection broke."""

    code = "roost.database.unreachable"


class DatabaseRefused(DatabaseError):
    """The database denies access: wrong password, missing privileges, no such database."""

    code = "roost.database.refused"
    is_lasting = True


class DatabaseReadOnly(DatabaseError):
    """The database is read-only."""

    code = "roost.database.read_only"


class DatabaseFull(DatabaseError):
    """The database has no space left for a write."""

    code = "roost.database.full"


class DatabaseConflict(DatabaseError):
    """A deadlock or serialization failure: the transaction was rolled back, and a retry may succeed."""

    code = "roost.database.conflict"


class SchemaError(DatabaseError):
    """The schema of the database is not that of this version of Roost."""

    code = "roost.database.schema"
    is_lasting = True


class NoReadableCell(DatabaseError):
    """No cell of a nova cloud can be read, so there are no hosts to choose from."""

    code = "roost.database.no_readable_cell"


class PlacementError(RoostError):
    """Placement cannot be used, permanently or for now, or gave an answer that is not expected."""

    code = "roost.placement"
    may_be_executed = False
    """Whether a write may have been executed, in whole or in part."""


class PlacementUnavailable(PlacementError):
    """No answer in time, a lost connection, or status 5xx: unless no connection could be made, it may be executed."""

    code = "roost.placement.unavailable"
    may_be_executed = True


class PlacementRefused(PlacementError):
    """Placement or keystone denies access: wrong credentials, or missing rights. Nothing was executed."""

    code = "roost.placement.refused"


class PlacementBadRequest(PlacementError):
    """Placement does not understand a call (status 400), such as one for a resource class that it does not have."""

    code = "roost.placement.bad_request"


class PlacementNotFound(PlacementError):
    """A resource provider or a consumer that placement does not have."""

    code = "roost.placement.not_found"


class PlacementConflict(PlacementError):
    """Placement refuses a write because of its present state (status 409). Nothing was executed.

    `kind` is `capacity` (a provider has no room, or does not allow the amount), `generation` (a provider changed
    meanwhile) or `consumer` (the consumer changed meanwhile); `providers` are the uuids that the write named.
    """

    code = "roost.placement.conflict"

    def __init__(self, kind: str, message: str, providers: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.kind, self.providers = kind, tuple(providers)


class RpcError(RoostError):
    """A message was not delivered, or its reply is invalid."""

    code = "roost.rpc"


class RpcUnreachable(RpcError):
    """There is no broker, or no server listens on the topic. Nothing was executed."""

    code = "roost.rpc.unreachable"


class BrokerUnreachable(RpcUnreachable):
    """There is no connection to the broker. Nothing was executed."""

    code = "roost.rpc.broker"


class RpcTimeout(RpcError):
    """No reply in time. Whether the request was executed is not known."""

    code = "roost.rpc.timeout"


class MessageError(RpcError):
    """A message that cannot be decoded, or a value that cannot be encoded."""

    code = "roost.rpc.message"


class UnsupportedVersion(RpcError):
    """A message version that the server does not support, or that [upgrade_levels] does not allow."""

    code = "roost.rpc.version"


class SelectionObjectsWithOldRPCVersionNotSupported(UnsupportedVersion):
    """Selection objects were requested, and the message version that may be sent does not have them."""

    code = "roost.rpc.version.selection_objects"


class RemoteFailure(RpcError):
    """The server replied with an error: `name` is its class on the server, `reason` its reason or empty.

    `summary`: of the decision, from a scheduler of Roost that was asked for it; else empty. `is_unavailable`: the
    server lacks something for now, as ServiceUnavailable says.
    """

    code = "roost.rpc.remote"
    name = ""
    is_unavailable = False

    def __init__(
        self,
        name: str,
        message: str,
        reason: str = "",
        traceback: Sequence[str] = (),
        *,
        summary: str = "",
        hint: str = "",
        is_unavailable: bool = False,
    ) -> None:
        super().__init__(message or name, hint)
        self.is_unavailable = is_unavailable
        self.name, self.reason, self.traceback, self.summary = name, reason, tuple(traceback), summary

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message != self.name else self.name


class RemoteNoValidHost(RemoteFailure):
    """The server replied that the request is valid and no host fits."""

    code = "roost.rpc.remote.no_valid_host"

    def __str__(self) -> str:
        return f"{self.message} ({self.summary})" if self.summary else self.message


class ServerChanged(RoostError):
    """The record of a server is not the one that was read: another process was faster. Nothing was changed."""

    code = "roost.server.changed"


class ServerFailed(RoostError):
    """A change of a server was begun, and failed; the message is that of its fault, the hint has the details."""

    code = "roost.server.failed"


class PartlyChanged(RoostError):
    """A change was begun, and what belongs to it was refused or cannot be seen; the message says what there is."""

    code = "roost.partly_changed"


class IllegalStep(BadInput):
    """Something that is not possible in the present state of a server. Nothing was changed."""

    code = "roost.bad_input.illegal_step"


class ProcessFailed(RoostError):
    """A process of a cluster on this machine ended, or does not become ready or stop in time."""

    code = "roost.process_failed"


class HypervisorError(RoostError):
    """A hypervisor refuses something, or cannot be reached."""

    code = "roost.hypervisor"


class ComputeResourcesUnavailable(RoostError):
    """The host of an agent has no room for a server; the message has nova's reasons, joined by "; ".

    Nothing was reserved. The build or move is tried on another host.
    """

    code = "roost.compute_resources_unavailable"


class AccessError(RoostError):
    """A caller of the API is refused. Nothing was changed."""

    code = "roost.access"


class SignInRefused(AccessError):
    """A wrong user, password, application credential or project. The message does not say which."""

    code = "roost.access.sign_in"


class TokenRefused(AccessError):
    """No token, or one that is unknown, expired or revoked."""

    code = "roost.access.token"


class Forbidden(AccessError):
    """The roles of the caller do not allow what was asked; the message names the rule."""

    code = "roost.access.forbidden"


class TooManyAttempts(AccessError):
    """Too many failed sign-ins lately. `retry_after_seconds`: how long to wait."""

    code = "roost.access.too_many_attempts"

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message, f"try again in {retry_after_seconds:.0f} s")
        self.retry_after_seconds = retry_after_seconds


class ServiceUnavailable(RoostError):
    """A service of the cloud cannot do it now: its database, or another service, does not answer or is full.

    The same request may succeed later.
    """

    code = "roost.service_unavailable"


class IdentityUnavailable(RoostError):
    """Keystone does not answer, so that no token can be checked."""

    code = "roost.identity_unavailable"


class ApiError(RoostError):
    """The API of a cloud gave an answer that its client does not expect."""

    code = "roost.api"


class ApiUnavailable(ApiError):
    """The API of a cloud cannot be reached, or cannot answer now. Whether a change was made is not known."""

    code = "roost.api.unavailable"


class PluginFailed(RoostError):
    """A plugin raised an exception, `cause`; the request fails, the service continues."""

    code = "roost.plugin_failed"

    def __init__(self, plugin: str, host: str, cause: BaseException) -> None:
        where = f" on host {host}" if host else ""
        super().__init__(f"{plugin} failed{where}: {type(cause).__name__}: {cause}", remedy_for(cause))
        self.plugin = plugin
        self.host = host
        self.cause = cause


MOST_COMPARED = 2000
"""Names of hosts that `nearest` is given at most: a hint need not search a whole fleet."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the closest known name, or lists up to 8 known names where none is close."""
    names = sorted(str(each) for each in known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    if not names:
        return "none are defined"
    listed = ", ".join(names[:8])
    return f"known: {listed}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")
