# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a cloud, whether by messages or by its API.

Records are JSON objects. A server is named by its uuid, or by its name where only one has it. Errors are Roost's own:
UnknownName, IllegalStep and other BadInput for what the caller can put right, RemoteNoValidHost where a dry run finds no
host, RpcError where the cloud does not answer.

| record | keys |
| --- | --- |
| server | id, name, description, status, vm_state, task_state, power_state, host, node, availability_zone, project_id, user_id, flavor, image, metadata, reservation_id, created_at, updated_at, launched_at, fault, attempts, migrations |
| fault | code, message, details (for admins), created; of a server in ERROR, for admins the latest of any |
| host | host, node, state (up, down), status (enabled, disabled), disabled_reason, forced_down, availability_zone, servers, vcpus, vcpus_used, memory_mb, memory_mb_used, disk_gb, disk_gb_used, hypervisor_type, updated_at |
| decision in a list | id, created_at, request_id, project_id, placed, instances, hosts, summary |
| decision | id, created_at, request_id, project_id, data; with_state: state (options, checkpoint, changes, ...; or null) |
| planned step | server, name, action, host (the chosen or named one, or null), summary |
"""  # noqa: E501 - tables

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Record = dict[str, Any]
Plan = list[Record]
"""What a dry run would do: a planned step for each server."""


STATUSES = (
    *("ACTIVE", "BUILD", "ERROR", "MIGRATING", "PAUSED", "REBUILD", "RESIZE", "REVERT_RESIZE"),
    *("SHELVED_OFFLOADED", "SHUTOFF", "UNKNOWN", "VERIFY_RESIZE"),
)
"""What a server in a list can be, in the words of nova's API. DELETED ones are not listed."""


class CommandClient(Protocol):
    """A cloud, as the commands of operators see it.

    A change returns as soon as it has begun, with the server or host as it is then; `waiting.py` sees it through.
    With `dry_run` it is checked and planned by the same code, and not made; the answer is {"plan": Plan}.
    """

    def create_servers(self, request: Mapping[str, Any], dry_run: bool = False) -> Record:
        """Begin to build servers, all or none: {"servers": [server, ...], "reservation_id": text}.

        `request`: name, flavor, image, count (or min_count and max_count), hints, group, availability_zone
        ("ZONE[:HOST[:NODE]]"), host and node (which have to pass all filters), description, metadata, reservation_id.
        """

    def list_servers(self, filters: Mapping[str, str]) -> list[Record]:
        """The servers that match all filters: host, project_id, status, name; with `limit`, so many after `after`."""

    def get_server(self, server: str) -> Record:
        """One server. UnknownName where there is none, or the name is that of several."""

    def delete_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to delete a server."""

    def start_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to start a stopped server."""

    def stop_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to stop a server."""

    def resize_server(self, server: str, flavor: str, dry_run: bool = False) -> Record:
        """Begin to give a server another flavor, to be confirmed or reverted afterwards."""

    def confirm_resize(self, server: str, dry_run: bool = False) -> Record:
        """Begin to remove what a resized server left on its former host."""

    def revert_resize(self, server: str, dry_run: bool = False) -> Record:
        """Begin to bring a resized server back to its former host and flavor."""

    def migrate_server_cold(self, server: str, host: str | None = None, dry_run: bool = False) -> Record:
        """Begin to move a server to another host, stopped meanwhile; to be confirmed or reverted as a resize."""

    def live_migrate_server(
        self, server: str, host: str | None = None, force: bool = False, dry_run: bool = False
    ) -> Record:
        """Begin to move a running server to another host. `force`: take the named host without asking a scheduler."""

    def evacuate_server(
        self, server: str, host: str | None = None, force: bool = False, dry_run: bool = False
    ) -> Record:
        """Begin to rebuild a server whose host is down on another one."""

    def shelve_server(self, server: str, dry_run: bool = False) -> Record:
        """Begin to take a server off its host; unshelving finds it another."""

    def unshelve_server(
        self, server: str, host: str | None = None, availability_zone: str | None = None, dry_run: bool = False
    ) -> Record:
        """Begin to bring a shelved server onto a host. `availability_zone`: where it stays then; "": anywhere."""

    def rebuild_server(self, server: str, image: str | None = None, dry_run: bool = False) -> Record:
        """Begin to build a server anew where it is, from another image or the same."""

    def list_hosts(self) -> list[Record]:
        """All hosts."""

    def get_host(self, host: str) -> Record:
        """One host; UnknownName where there is none."""

    def set_host(
        self,
        host: str,
        disabled: bool | None = None,
        reason: str | None = None,
        forced_down: bool | None = None,
        dry_run: bool = False,
    ) -> Record:
        """Say whether a host may get servers, and whether it is known to be down; None leaves it as it is."""

    def list_decisions(self, filters: Mapping[str, Any]) -> list[Record]:
        """Decisions, the latest first. Filters: server, request_id, project_id, placed, before (an id), limit."""

    def get_decision(self, decision: str, with_state: bool = False) -> Record:
        """A decision by its id, by the id of its request, or the latest about a server by its name or uuid.

        `with_state`: also what the fleet was at that moment, if it is still kept.
        """

    def list_flavors(self) -> list[Record]:
        """All flavors."""

    def list_images(self) -> list[Record]:
        """All images."""

    def get_snapshot(self) -> Record:
        """All that is known of the cloud at this moment: {"snapshot": content of a snapshot file, as base64}."""


class CloudClient(CommandClient, Protocol):
    """A cloud, as its API sees it: all that conductors answer."""

    def resize_server(
        self, server: str, flavor: str, dry_run: bool = False, details: Mapping[str, Any] | None = None
    ) -> Record:
        """Begin to give a server another flavor. `details`: disk_config, if it changes with that."""

    def rebuild_server(
        self,
        server: str,
        image: str | None = None,
        dry_run: bool = False,
        details: Mapping[str, Any] | None = None,
    ) -> Record:
        """Begin to build a server anew where it is.

        `details`: what is written on it with that, as by `update_server`; also `metadata`, all of it.
        """

    def update_server(self, server: str, changes: Mapping[str, Any], dry_run: bool = False) -> Record:
        """Change what clients write on a server. `changes`: one or more of name, description (None: none), hostname,
        access_ip_v4, access_ip_v6 (None: none), disk_config (AUTO or MANUAL).
        """

    def set_server_metadata(
        self, server: str, metadata: Mapping[str, str], replace: bool = False, dry_run: bool = False
    ) -> Record:
        """Add entries to the metadata of a server. `replace`: it has no others then."""

    def delete_server_metadata(self, server: str, key: str, dry_run: bool = False) -> Record:
        """Remove an entry from the metadata of a server; UnknownName where there is none."""

    def reset_server_state(self, server: str, state: str, dry_run: bool = False) -> Record:
        """Give a server the state active or error, whatever is being done to it: for admins."""

    def list_migrations(self, server: str | None = None, host: str | None = None) -> list[Record]:
        """Migrations of a server, from or to a host, or all; the latest first."""


METHODS = frozenset(name for kind in (CommandClient, CloudClient) for name in vars(kind) if not name.startswith("_"))
"""What clients may ask; conductors answer methods of these names."""
