# SPDX-License-Identifier: Apache-2.0
"""The client of a scheduler: each of its methods, sent in the newest form that [upgrade_levels] scheduler allows.

Where this cap is older than what the caller has to say, arguments are left out, newest first. FORMS has the methods
in all message versions.

A request is sent once. nova from Kilo to Queens sent it again when no answer came in time; the scheduler may have
carried out the first by then, and the second would be another request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from roost.errors import OptionError, SelectionObjectsWithOldRPCVersionNotSupported, UnsupportedVersion, nearest
from roost.messages.context import RequestContext
from roost.messages.dispatcher import parse_version
from roost.messages.interface import Transport
from roost.messages.options import RpcOptions

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
"""Message version of each release of nova up to Pike; later ones understand all versions here."""


class CallForm(NamedTuple):
    """Arguments of a method as of a message version."""

    version: str
    arguments: tuple[str, ...]


LEGACY_ARGUMENTS = ("request_spec", "filter_properties")
_RUN_ARGUMENTS = (
    "request_spec",
    "admin_password",
    "injected_files",
    "requested_networks",
    "is_first_time",
    "filter_properties",
)
_RESIZE_ARGUMENTS = ("instance", "instance_type", "image", "request_spec", "filter_properties", "reservations")

FORMS: dict[str, tuple[CallForm, ...]] = {
    "select_destinations": (
        CallForm("4.5", ("spec_obj", "instance_uuids", "return_objects", "return_alternates")),
        CallForm("4.4", ("spec_obj", "instance_uuids")),
        CallForm("4.3", ("spec_obj",)),
        CallForm("4.0", LEGACY_ARGUMENTS),
        CallForm("3.0", LEGACY_ARGUMENTS),
        CallForm("2.7", LEGACY_ARGUMENTS),
    ),
    "plan_destinations": (CallForm("4.5", ("spec_obj", "instance_uuids")),),
    "update_aggregates": (CallForm("4.1", ("aggregates",)),),
    "delete_aggregate": (CallForm("4.1", ("aggregate",)),),
    "update_instance_info": (CallForm("4.2", ("host_name", "instance_info")),),
    "delete_instance_info": (CallForm("4.2", ("host_name", "instance_uuid")),),
    "sync_instance_info": (CallForm("4.2", ("host_name", "instance_uuids")),),
    "run_instance": (
        CallForm("3.0", (*_RUN_ARGUMENTS, "legacy_bdm_in_spec")),
        CallForm("2.9", (*_RUN_ARGUMENTS, "legacy_bdm_in_spec")),
        CallForm("2.0", _RUN_ARGUMENTS),
    ),
    "prep_resize": (CallForm("3.0", _RESIZE_ARGUMENTS), CallForm("2.0", _RESIZE_ARGUMENTS)),
    "live_migration": (CallForm("2.0", ("instance", "dest", "block_migration", "disk_over_commit")),),
    "select_hosts": (CallForm("2.6", LEGACY_ARGUMENTS),),
    "show_host_resources": (CallForm("2.0", ("host",)),),
    "get_backdoor_port": (CallForm("2.0", ()),),
    "create_volume": (CallForm("2.0", ("args",)),),
}
"""Every form of every method, newest first."""


def parse_cap(text: str | None) -> tuple[int, int] | None:
    """Major and minor version of [upgrade_levels] scheduler; None where it is unset, for the newest."""
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


def newest_form(method: str, cap: tuple[int, int] | None) -> CallForm:
    """The newest form of the method that the cap allows; UnsupportedVersion where there is none."""
    for form in FORMS[method]:
        if cap is None or _is_within(cap, form.version):
            return form
    shown = ".".join(str(part) for part in cap or ())
    raise UnsupportedVersion(f"{method} cannot be sent as version {shown}", "see [upgrade_levels] scheduler")


class ObjectCodec(Protocol):
    """Encodes objects of the caller for messages, and decodes them."""

    def to_wire(self, value: Any) -> Any:
        """The value as JSON, with nova's envelopes for objects."""

    def from_wire(self, value: Any) -> Any:
        """The value with objects in place of envelopes."""


class LegacySpec(Protocol):
    """A request that can also be written as the dicts of older releases."""

    def to_legacy_request_spec_dict(self) -> Mapping[str, Any]:
        """The request, as nova before Mitaka sent it."""

    def to_legacy_filter_properties_dict(self) -> Mapping[str, Any]:
        """Conditions on the choice of a host, as nova before Mitaka sent them."""


class DestinationPlan(NamedTuple):
    """What a scheduler would answer to a request."""

    selections: list[list[Any]]
    """Per instance its host, then the alternates."""
    summary: str
    """Of the decision, in one line."""


class SchedulerClient:
    """Calls and casts to schedulers."""

    def __init__(self, transport: Transport, objects: ObjectCodec, options: RpcOptions) -> None:
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
        """Hosts for the instances: a list of Selections for each, or a dict for each without `return_objects`."""
        form = newest_form("select_destinations", self._cap)
        if return_objects and "return_objects" not in form.arguments:
            problem = f"Selection objects need version 4.5; {form.version} is the newest that may be sent"
            hint = "raise [upgrade_levels] scheduler"
            raise SelectionObjectsWithOldRPCVersionNotSupported(problem, hint)
        values = {
            "instance_uuids": list(instance_uuids) if instance_uuids is not None else None,
            "return_objects": return_objects,
            "return_alternates": return_alternates,
            **(_legacy(spec) if form.arguments == LEGACY_ARGUMENTS else {"spec_obj": spec}),
        }
        return self._call(context, "select_destinations", values, is_long=True)

    def plan_destinations(
        self, context: RequestContext, spec: Any, instance_uuids: Sequence[str] | None = None
    ) -> DestinationPlan:
        """A dry run of `select_destinations`: the hosts that it would answer now. RemoteNoValidHost has a summary.

        Only schedulers of Roost have it. Nothing is claimed: the next request may get the same hosts.
        """
        uuids = list(instance_uuids) if instance_uuids is not None else None
        values = {"spec_obj": spec, "instance_uuids": uuids}
        answer = self._call(context, "plan_destinations", values, is_long=True)
        return DestinationPlan(answer["selections"], answer["summary"])

    def update_aggregates(self, context: RequestContext, aggregates: Sequence[Any]) -> None:
        """Tell all schedulers that these aggregates are new or have changed."""
        self._broadcast(context, "update_aggregates", {"aggregates": list(aggregates)})

    def delete_aggregate(self, context: RequestContext, aggregate: Any) -> None:
        """Tell all schedulers that the aggregate was deleted."""
        self._broadcast(context, "delete_aggregate", {"aggregate": aggregate})

    def update_instance_info(self, context: RequestContext, host_name: str, instance_info: Any) -> None:
        """Tell all schedulers that these instances run on the host."""
        self._broadcast(context, "update_instance_info", {"host_name": host_name, "instance_info": instance_info})

    def delete_instance_info(self, context: RequestContext, host_name: str, instance_uuid: str) -> None:
        """Tell all schedulers that the instance no longer runs on the host."""
        self._broadcast(context, "delete_instance_info", {"host_name": host_name, "instance_uuid": instance_uuid})

    def sync_instance_info(self, context: RequestContext, host_name: str, instance_uuids: Sequence[str]) -> None:
        """Tell all schedulers that exactly these instances run on the host."""
        self._broadcast(
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
        """Icehouse and Juno: have a scheduler choose hosts and have the instances built there."""
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
        """Icehouse and Juno: have a scheduler choose a host and have it prepare for the resize."""
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
        """Icehouse: have a scheduler choose a host and move the running instance there; returns its result."""
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
        """Before cinder: have a scheduler choose a host for a volume; returns its result."""
        return self._call(context, "create_volume", {"args": args})

    def _call(self, context: RequestContext, method: str, values: Mapping[str, Any], is_long: bool = False) -> Any:
        """Call and decode the result. `is_long`: wait longer, as long as the scheduler sends heartbeats."""
        form, options = newest_form(method, self._cap), self._options
        timeout = options.long_rpc_timeout if is_long else options.rpc_response_timeout
        heartbeat_timeout = options.rpc_response_timeout if is_long else None
        topic, args = options.scheduler_topic, self._arguments(form, values)
        result = self._transport.call(topic, method, form.version, args, context, timeout, heartbeat_timeout)
        return self._objects.from_wire(result)

    def _cast(self, context: RequestContext, method: str, values: Mapping[str, Any], to_all: bool = False) -> None:
        form = newest_form(method, self._cap)
        args = self._arguments(form, values)
        self._transport.cast(self._options.scheduler_topic, method, form.version, args, context, fanout=to_all)

    def _broadcast(self, context: RequestContext, method: str, values: Mapping[str, Any]) -> None:
        self._cast(context, method, values, to_all=True)

    def _arguments(self, form: CallForm, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._objects.to_wire(values[name]) for name in form.arguments}


def _legacy(spec: LegacySpec) -> dict[str, Any]:
    return {
        "request_spec": spec.to_legacy_request_spec_dict(),
        "filter_properties": spec.to_legacy_filter_properties_dict(),
    }
