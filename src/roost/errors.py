# SPDX-License-Identifier: Apache-2.0
"""Every error Roost raises on purpose.

    RoostError
    ├── BadInput                what came from outside is wrong: nothing was done
    │   ├── FieldError          a value that does not fit its field
    │   │   └── ImagePropertyError   a property of an image (model/image_property_values.py)
    │   ├── FleetError          a fleet file, with file, line and field
    │   ├── OptionError         an option, with section, name and value
    │   │   └── DatabaseAddressError   an address under which there can be no database
    │   ├── RuleError           a rule that cannot be applied to this request, such as "at least abc"
    │   │   └── HostFault       a rule that cannot be applied to what a host reports
    │   ├── NumaRequestError    a flavor or image that asks for an impossible topology (model/numa_extra_specs.py)
    │   ├── PciAliasError       a PCI alias that is no alias, or that nobody defined (model/pci.py)
    │   ├── PluginNotFound      a filter or weigher that cannot be found or loaded
    │   ├── UnknownName         a flavor, image, group, zone or instance nobody has heard of
    │   └── UnsupportedPolicy   a server group whose policy no enabled plugin enforces
    ├── DatabaseError           the database cannot be used, or not now
    │   ├── DatabaseUnreachable    nobody answers there, or the connection broke
    │   ├── DatabaseRefused     it answers, and does not let us in: password, rights, unknown database
    │   ├── DatabaseReadOnly    it cannot be written to
    │   ├── DatabaseFull        there is no room for what is to be written
    │   ├── DatabaseConflict    two transactions got into each other's way: expected, try again
    │   └── SchemaError         its tables are not those of this version of Roost
    ├── RpcError                a message did not get through, or what came back is no answer
    │   ├── RpcUnreachable      no broker, or nobody who serves the topic: nothing was sent
    │   ├── RpcTimeout          no answer in time; the request may have been carried out all the same
    │   ├── MessageError        a message that cannot be understood, or a value that cannot be sent
    │   ├── UnsupportedVersion  a message version that the other side, or the configured cap, does not allow
    │   │   └── SelectionObjectsWithOldRPCVersionNotSupported   Selection objects need version 4.5
    │   └── RemoteFailure       the server answered with an error; has its class name
    │       └── RemoteNoValidHost   the request is fine, no host fits
    ├── ClaimRejected           somebody was faster: expected, choose again; says which hosts and why
    ├── AlreadyClaimed          a consumer holds something else than what is claimed for it
    ├── NoValidHost             the request is fine, no host fits; carries the Decision
    ├── PluginFailed            somebody's plugin raised; names the plugin and the host
    ├── NumaUsageError          a host's cells cannot take what is to be recorded on them (hosts/numa_usage.py)
    └── PciUnavailable          a host's free devices do not do for the requests (hosts/pci.py)

Each class has a stable `code` (for programs) and a `hint` (one sentence on what to do).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from roost.remedies import remedy_for

if TYPE_CHECKING:
    from roost.model.decision import Decision


class RoostError(Exception):
    """Base of all errors that Roost raises on purpose."""

    code = "roost.error"
    hint = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        if hint:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class BadInput(RoostError):
    """What came from outside cannot be used; nothing was done."""

    code = "roost.bad_input"


class FieldError(BadInput):
    """A value that does not fit its field. `field` is the path, such as `flavors[0].vcpus`."""

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
    """A fleet file that cannot be used."""

    code = "roost.bad_input.fleet"


class OptionError(BadInput):
    """An option that does not exist or a value it cannot take."""

    code = "roost.bad_input.option"
    nova_type = "ValueError"


class DatabaseAddressError(OptionError):
    """An address under which there can be no database. Never repeats the address, which may hold a password."""

    code = "roost.bad_input.option.database_address"


class RuleError(BadInput):
    """A built-in rule met a value it cannot work with: the request fails, as it does in nova."""

    code = "roost.bad_input.rule"

    def __init__(self, rule: str, problem: str, nova_type: str = "ValueError", hint: str = "") -> None:
        super().__init__(f"{rule}: {problem}", hint)
        self.nova_type = nova_type
        """Name of the exception class with which nova fails here."""


class HostFault(RuleError):
    """The same because of what a host says of itself: whoever asks can do nothing about it."""

    code = "roost.bad_input.host"


class PluginNotFound(BadInput):
    """A filter or weigher that is not there, or is not one."""

    code = "roost.bad_input.plugin"


class UnknownName(BadInput):
    """A name that the request uses and nobody has defined."""

    code = "roost.bad_input.name"


class UnsupportedPolicy(BadInput):
    """A server group whose policy nothing would enforce."""

    code = "roost.bad_input.policy"


class NoValidHost(RoostError):
    """No host fits. `decision` says how each one was lost."""

    code = "roost.no_valid_host"

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.summary)
        self.decision = decision
        self.rounds = 1
        """How often hosts were chosen; where others were faster, more than once."""


class Refusal(NamedTuple):
    """One node that did not give what was claimed of it."""

    host: str
    node: str
    reason: str


class ClaimRejected(RoostError):
    """A claim that does not fit any more. Nothing of the request was claimed; the rows it names are worth a look."""

    code = "roost.claim_rejected"

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        first = refusals[0]
        more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
        super().__init__(f"host {first.host}: {first.reason}{more}")
        self.refusals = tuple(refusals)


class AlreadyClaimed(RoostError):
    """A consumer that holds something else already. `hosts` says where."""

    code = "roost.already_claimed"

    def __init__(self, consumer_uuid: str, hosts: Sequence[str]) -> None:
        where = ", ".join(hosts)
        super().__init__(f"consumer {consumer_uuid} holds resources on {where} already", "release or move it")
        self.consumer_uuid, self.hosts = consumer_uuid, tuple(hosts)


class DatabaseError(RoostError):
    """The database cannot be used, or not now. Nothing was half written."""

    code = "roost.database"


class DatabaseUnreachable(DatabaseError):
    """Nobody answers at the address, or the connection broke."""

    code = "roost.database.unreachable"


class DatabaseRefused(DatabaseError):
    """The database does not let us in: wrong password, missing rights, no such database."""

    code = "roost.database.refused"


class DatabaseReadOnly(DatabaseError):
    """The database cannot be written to."""

    code = "roost.database.read_only"


class DatabaseFull(DatabaseError):
    """The database has no room for what is to be written."""

    code = "roost.database.full"


class DatabaseConflict(DatabaseError):
    """Two transactions got into each other's way; this one was undone, and the same again may succeed."""

    code = "roost.database.conflict"


class SchemaError(DatabaseError):
    """The tables in the database are not those of this version of Roost."""

    code = "roost.database.schema"


class RpcError(RoostError):
    """A message did not get through, or what came back is no answer."""

    code = "roost.rpc"


class RpcUnreachable(RpcError):
    """There is no broker, or nobody serves the topic. Nothing was carried out."""

    code = "roost.rpc.unreachable"


class RpcTimeout(RpcError):
    """No answer in time. Whether the request was carried out is not known."""

    code = "roost.rpc.timeout"


class MessageError(RpcError):
    """A message that cannot be understood, or a value that cannot be sent."""

    code = "roost.rpc.message"


class UnsupportedVersion(RpcError):
    """A message version that the other side does not know, or that [upgrade_levels] does not allow."""

    code = "roost.rpc.version"


class SelectionObjectsWithOldRPCVersionNotSupported(UnsupportedVersion):
    """Selection objects were asked for, and the version that may be sent has none."""

    code = "roost.rpc.version.selection_objects"


class RemoteFailure(RpcError):
    """The server answered with an error: `name` is its class there, `reason` what it gave as reason, if it did."""

    code = "roost.rpc.remote"
    name = ""

    def __init__(self, name: str, message: str, reason: str = "", traceback: Sequence[str] = ()) -> None:
        super().__init__(message or name)
        self.name, self.reason, self.traceback = name, reason, tuple(traceback)

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message != self.name else self.name


class RemoteNoValidHost(RemoteFailure):
    """The request is fine, and no host fits."""

    code = "roost.rpc.remote.no_valid_host"

    def __str__(self) -> str:
        return self.message


class PluginFailed(RoostError):
    """A plugin raised: the request fails, the service goes on."""

    code = "roost.plugin_failed"

    def __init__(self, plugin: str, host: str, cause: BaseException) -> None:
        where = f" on host {host}" if host else ""
        super().__init__(f"{plugin} failed{where}: {type(cause).__name__}: {cause}", remedy_for(cause))
        self.plugin = plugin
        self.host = host
        self.cause = cause


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the closest known spelling, or lists what there is when nothing is close."""
    names = sorted(str(each) for each in known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    if not names:
        return "none are defined"
    listed = ", ".join(names[:8])
    return f"known: {listed}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")
