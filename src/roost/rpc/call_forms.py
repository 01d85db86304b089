# SPDX-License-Identifier: Apache-2.0
"""The methods of a scheduler in all message versions, and the newest that may be sent.

[upgrade_levels] scheduler caps the version. Where the cap is older than what the caller has to say, arguments are
left out, newest first.
"""

from __future__ import annotations

from typing import NamedTuple

from roost.errors import OptionError, UnsupportedVersion, nearest
from roost.rpc.dispatcher import parse_version

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
