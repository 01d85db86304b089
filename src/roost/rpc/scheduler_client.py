# SPDX-License-Identifier: Apache-2.0
"""The caller's side of a scheduler: every method it has, in the newest form that may be sent.

[upgrade_levels] scheduler says how new that is. Where it is older than what the caller has to say, arguments are left
out, newest first.

A request is sent once. nova from Kilo to Queens sent it again when no answer came in time; the scheduler may have
carried out the first by then, and the second would be another request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from roost.errors import OptionError, SelectionObjectsWithOldRPCVersionNotSupported, UnsupportedVersion, nearest
from roost.rpc.context import RequestContext
from roost.rpc.dispatcher import parse_version
from roost.rpc.interface import Transport
from roost.rpc.options import RpcOptions

RELEASES = {
    "grizzly": "2.6",
    "havana": "2.9",
    "icehouse": "3.0",
    "juno": "3.0",
    "kilo": "4.2",
    "liberty": "4.2",
    "mitaka": "4.3",
    "newton": "4.3",
    "ocata": "4.3",
    "pike": "4.4",
}
"""The version that a release of nova understands; later ones understand them all."""


class CallForm(NamedTuple):
    """A method as of some version."""

    version: str
    arguments: tuple[str, ...]


_LEGACY = ("request_spec", "filter_properties")
_RUN = (
    "request_spec",
    "admin_password",
    "injected_files",
    "requested_networks",
    "is_first_time",
    "filter_properties",
)
_RESIZE = ("instance", "instance_type", "image", "request_spec", "filter_properties", "reservations")

FORMS: dict[str, tuple[CallForm, ...]] = {
    "select_destinations": (
        CallForm("4.5", ("spec_obj", "instance_uuids", "return_objects", "return_alternates")),
        CallForm("4.4", ("spec_obj", "instance_uuids")),
        CallForm("4.3", ("spec_obj",)),
        CallForm("4.0", _LEGACY),
        CallForm("3.0", _LEGACY),
        CallForm("2.7", _LEGACY),
    ),
    "update_aggregates": (CallForm("4.1", ("aggregates",)),),
    "delete_aggregate": (CallForm("4.1", ("aggregate",)),),
    "update_instance_info": (CallForm("4.2", ("host_name", "instance_info")),),
    "delete_instance_info": (CallForm("4.2", ("host_name", "instance_uuid")),),
    "sync_instance_info": (CallForm("4.2", ("host_name", "instance_uuids")),),
    "run_instance": (
        CallForm("3.0", (*_RUN, "legacy_bdm_in_spec")),
        CallForm("2.9", (*_RUN, "legacy_bdm_in_spec")),
        CallForm("2.0", _RUN),
    ),
    "prep_resize": (CallForm("3.0", _RESIZE), CallForm("2.0", _RESIZE)),
    "live_migration": (CallForm("2.0", ("instance", "dest", "block_migration", "disk_over_commit")),),
    "select_hosts": (CallForm("2.6", _LEGACY),),
    "show_host_resources": (CallForm("2.0", ("host",)),),
    "get_backdoor_port": (CallForm("2.0", ()),),
    "create_volume": (CallForm("2.0", ("args",)),),
}
"""Every form of every method, newest first."""


class Objects(Protocol):
    """Turns the caller's objects into what messages hold, and back."""

    def to_wire(self, value: Any) -> Any:
        """JSON, with nova's envelopes for objects."""

    def from_wire(self, value: Any) -> Any:
        """Objects where there are envelopes."""


class LegacySpec(Protocol):
    """A request that can also be said in the dicts of older releases."""

    def to_legacy_request_spec_dict(self) -> Mapping[str, Any]:
        """What is asked for."""

    def to_legacy_filter_properties_dict(self) -> Mapping[str, Any]:
        """What is to be heeded in the choice."""


class SchedulerClient:
    """Asks and tells the schedulers."""

    def __init__(self, transport: Transport, objects: Objects, options: RpcOptions) -> None:
        self._transport = transport
        self._objects = objects
        self._options = options
        self._cap = parse_cap(options.scheduler_version)

    def select_destinations(
        self,
        context: RequestContext,
        spec: Any,
        instance_uuids: Sequence[str] | None = None,
        return_objects: bool = False,
        return_alternates: bool = False,
    ) -> Any:
        """Hosts for the instances: a list for each, of Selections, or one dict each without `return_objects`."""
        form = self._form("select_destinations")
        if return_objects and "return_objects" not in form.arguments:
            problem = f"Selection objects need version 4.5; {form.version} is the newest that may be sent"
            hint = "raise [upgrade_levels] scheduler"
            raise SelectionObjectsWithOldRPCVersionNotSupported(problem, hint)
        values = {
            "instance_uuids": list(instance_uuids) if instance_uuids is not None else None,
            "return_objects": return_objects,
            "return_alternates": return_alternates,
            **(_legacy(spec) if form.arguments == _LEGACY else {"spec_obj": spec}),
        }
        return self._call(context, "select_destinations", values, is_long=True)

    def update_aggregates(self, context: RequestContext, aggregates: Sequence[Any]) -> None:
        """These are new, or have changed. To all schedulers."""
        self._tell_all(context, "update_aggregates", {"aggregates": list(aggregates)})

    def delete_aggregate(self, context: RequestContext, aggregate: Any) -> None:
        """It is gone. To all schedulers."""
        self._tell_all(context, "delete_aggregate", {"aggregate": aggregate})

    def update_instance_info(self, context: RequestContext, host_name: str, instance_info: Any) -> None:
        """These instances run on the host. To all schedulers."""
        self._tell_all(context, "update_instance_info", {"host_name": host_name, "instance_info": instance_info})

    def delete_instance_info(self, context: RequestContext, host_name: str, instance_uuid: str) -> None:
        """The instance runs there no more. To all schedulers."""
        self._tell_all(context, "delete_instance_info", {"host_name": host_name, "instance_uuid": instance_uuid})

    def sync_instance_info(self, context: RequestContext, host_name: str, instance_uuids: Sequence[str]) -> None:
        """Exactly these run there. To all schedulers."""
        self._tell_all(
            context, "sync_instance_info", {"host_name": host_name, "instance_uuids": list(instance_uuids)}
        )

    def run_instance(
        self,
        context: RequestContext,
        request_spec: Mapping[str, Any],
        admin_password: str | None,
        injected_files: Sequence[Any] | None,
        requested_networks: Sequence[Any] | None,
        is_first_time: bool,
        filter_properties: Mapping[str, Any],
        legacy_bdm_in_spec: bool = True,
    ) -> None:
        """Icehouse and Juno: choose hosts and have the instances built there."""
        values = {
            "request_spec": request_spec,
            "admin_password": admin_password,
            "injected_files": injected_files,
            "requested_networks": requested_networks,
            "is_first_time": is_first_time,
            "filter_properties": filter_properties,
            "legacy_bdm_in_spec": legacy_bdm_in_spec,
        }
        self._cast(context, "run_instance", values)

    def prep_resize(
        self,
        context: RequestContext,
        instance: Any,
        instance_type: Any,
        image: Any,
        request_spec: Mapping[str, Any],
        filter_properties: Mapping[str, Any],
        reservations: Sequence[str] | None,
    ) -> None:
        """Icehouse and Juno: choose a host and have it prepare for the resize."""
        values = {
            "instance": instance,
            "instance_type": instance_type,
            "image": image,
            "request_spec": request_spec,
            "filter_properties": filter_properties,
            "reservations": reservations,
        }
        self._cast(context, "prep_resize", values)

    def live_migration(
        self, context: RequestContext, instance: Any, dest: str | None, block_migration: bool, disk_over_commit: bool
    ) -> Any:
        """Icehouse: move a running instance."""
        values = {
            "instance": instance,
            "dest": dest,
            "block_migration": block_migration,
            "disk_over_commit": disk_over_commit,
        }
        return self._call(context, "live_migration", values)

    def select_hosts(
        self, context: RequestContext, request_spec: Mapping[str, Any], filter_properties: Mapping[str, Any]
    ) -> Any:
        """Icehouse: names of hosts, one for each instance."""
        values = {"request_spec": request_spec, "filter_properties": filter_properties}
        return self._call(context, "select_hosts", values)

    def show_host_resources(self, context: RequestContext, host: str) -> Any:
        """Icehouse: what a host has, and what is in use there."""
        return self._call(context, "show_host_resources", {"host": host})

    def get_backdoor_port(self, context: RequestContext) -> Any:
        """Icehouse: where a debugger could attach."""
        return self._call(context, "get_backdoor_port", {})

    def create_volume(self, context: RequestContext, args: Mapping[str, Any]) -> Any:
        """Before volumes had a service of their own."""
        return self._call(context, "create_volume", {"args": args})

    def _call(self, context: RequestContext, method: str, values: Mapping[str, Any], is_long: bool = False) -> Any:
        """`is_long`: may take long, as long as the scheduler says that it is at it."""
        form, options = self._form(method), self._options
        timeout = options.long_rpc_timeout if is_long else options.rpc_response_timeout
        sign_of_life = options.rpc_response_timeout if is_long else None
        topic, args = options.scheduler_topic, self._arguments(form, values)
        result = self._transport.call(topic, method, form.version, args, context, timeout, sign_of_life)
        return self._objects.from_wire(result)

    def _cast(self, context: RequestContext, method: str, values: Mapping[str, Any], to_all: bool = False) -> None:
        form = self._form(method)
        args = self._arguments(form, values)
        self._transport.cast(self._options.scheduler_topic, method, form.version, args, context, fanout=to_all)

    def _tell_all(self, context: RequestContext, method: str, values: Mapping[str, Any]) -> None:
        self._cast(context, method, values, to_all=True)

    def _arguments(self, form: CallForm, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._objects.to_wire(values[name]) for name in form.arguments}

    def _form(self, method: str) -> CallForm:
        """The newest form that may be sent. Without a cap that is the newest there is."""
        for form in FORMS[method]:
            if self._cap is None or _is_within(self._cap, form.version):
                return form
        cap = ".".join(str(part) for part in self._cap or ())
        raise UnsupportedVersion(f"{method} cannot be sent as version {cap}", "see [upgrade_levels] scheduler")


def parse_cap(text: str | None) -> tuple[int, int] | None:
    """What [upgrade_levels] scheduler says. None: send the newest."""
    if not text:
        return None
    number = RELEASES.get(text.lower(), text)
    major, dot, minor = number.partition(".")
    newest = {int(form.version[0]) for forms in FORMS.values() for form in forms}
    if not (dot and major.isdecimal() and minor.isdecimal()) or int(major) not in newest:
        place = f"[upgrade_levels] scheduler = {text}: neither a version that can be sent nor a release"
        raise OptionError(place, nearest(text, [*RELEASES, "4.5"]))
    return int(major), int(minor)


def _is_within(cap: tuple[int, int], version: str) -> bool:
    major, minor = parse_version(version)
    return major == cap[0] and minor <= cap[1]


def _legacy(spec: LegacySpec) -> dict[str, Any]:
    return {
        "request_spec": spec.to_legacy_request_spec_dict(),
        "filter_properties": spec.to_legacy_filter_properties_dict(),
    }
