# SPDX-License-Identifier: Apache-2.0
"""The demonstration on a running development cloud: servers that boot, one that cannot, and a host that dies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from roost.errors import BadInput, RoostError, UnknownName
from roost.model.decision import Decision, Ranked, Selection
from roost.trial.dev_cloud import DevCloud

PATIENCE_SECONDS = 30.0
"""How long the demonstration waits for something to happen before it says that it did not."""
POLL_SECONDS = 0.05
STYLES = {"ACTIVE": "green", "ERROR": "red", "BUILD": "yellow"}


@dataclass(frozen=True)
class Scene:
    """A request for servers, and what there is to see."""

    remark: str
    name: str
    flavor: str
    count: int = 1
    zone: str | None = None
    group: str | None = None

    @property
    def command(self) -> str:
        """The command that does the same."""
        parts = [f"roost server create {self.name} --flavor {self.flavor}"]
        parts += [f"--count {self.count}"] if self.count > 1 else []
        parts += [f"--availability-zone {self.zone}"] if self.zone else []
        parts += [f"--group {self.group}"] if self.group else []
        return " ".join(parts)

    @property
    def request(self) -> dict[str, Any]:
        """The request as a conductor takes it."""
        named = {"name": self.name, "flavor": self.flavor, "count": self.count}
        return named | {"availability_zone": self.zone, "group": self.group}


SCENES = (
    Scene("Three web servers in zone-b, placed together or not at all.", "web", "web", 3, zone="zone-b"),
    Scene("Databases ask for the trait STORAGE_DISK_SSD, which few hosts have.", "db", "database", 2),
    Scene("Servers of the group `apart` (anti-affinity) never share a host.", "quorum", "small", 3, group="apart"),
    Scene("Training jobs take four GPUs each; hosts with GPUs fill up one by one.", "train", "train", 2),
    Scene("A giant in zone-c: nothing there is large enough, and it says so.", "giant", "giant", zone="zone-c"),
)


class Demonstration:
    """Shows a cloud at work, step by step, on a console."""

    def __init__(self, cloud: DevCloud, out: Console, stop: threading.Event) -> None:
        """`stop`: ends the demonstration before its next step."""
        self._cloud, self._client, self._out, self._stop = cloud, cloud.client, out, stop
        self._steps = 0

    def run(self) -> int:
        """Run all scenes, then let a host die and evacuate its servers; returns how many of these steps failed."""
        steps: list[Callable[[], None]] = [*(partial(self._show, scene) for scene in SCENES), self._lose_a_host]
        return sum(not self._succeeds(step) for step in steps if not self._stop.is_set())

    def _succeeds(self, step: Callable[[], None]) -> bool:
        """Run a step; returns False where it fails, which is shown: clients use the same cloud at the same time."""
        try:
            step()
        except RoostError as error:
            self._out.print(Text(f"  This step failed: {error}", style="red"), soft_wrap=True)
            self._out.print(Text("  A client may use the same servers; the cloud goes on.", style="dim"))
            return False
        return True

    # --- scenes ------------------------------------------------------------------------------------------

    def _show(self, scene: Scene) -> None:
        self._head(scene.remark, scene.command)
        created = self._client.create_servers(scene.request)["servers"]
        servers = self._wait_until_settled([each["id"] for each in created])
        if any(each["host"] for each in servers):
            self._show_placement(servers)
        else:
            self._show_failure(servers)

    def _show_placement(self, servers: Sequence[Mapping[str, Any]]) -> None:
        """The servers with the scores of their hosts, and the hosts that were left out for the first of them."""
        uuids = [each["id"] for each in servers if each["host"]]
        found: dict[str, Decision | None] = {}

        def are_recorded() -> bool:  # after the answer: a dry run could choose others among equals
            found.update((uuid, self._cloud.latest_decision_about(uuid)) for uuid in uuids)
            return all(found.values())

        self._wait_until(are_recorded)
        made = [decision for decision in found.values() if decision]
        choices = {str(each.instance_uuid): each for decision in made for each in decision.selections}
        self._out.print(_placement_table(servers, choices))
        for decision in made[:1]:
            lost = ", ".join(f"{count} {name}" for name, count in decision.rejected.items()) or "none"
            self._out.print(f"  {decision.hosts} hosts looked at; left out: {lost}", style="dim")

    def _show_failure(self, servers: Sequence[Mapping[str, Any]]) -> None:
        for server in servers:
            fault = server.get("fault") or {}
            self._out.print(_server_line(server, fault.get("message", "")))
            if fault.get("details"):
                self._out.print(Text(f"  {fault['details']}", style="dim"), soft_wrap=True)
            self._command(f"roost decision why {server['name']}")

    # --- a host dies -------------------------------------------------------------------------------------

    def _lose_a_host(self) -> None:
        listed = self._client.list_servers({})
        placed = {each["name"]: each["host"] for each in listed if each["host"]}
        if not placed:
            return
        host = placed[max(placed)]  # the last by name: of the web servers
        self._head(f"Host {host} loses power: its agent is gone, and its guests with it.", "")
        self._cloud.kill_host(host)
        seconds = self._wait_until(lambda: self._client.get_host(host)["state"] == "down")
        if self._stop.is_set():
            return
        self._out.print(f"  {host} counts as down after {seconds:.1f} s without a heartbeat", style="dim")
        self._command(f"roost server evacuate --from {host}")
        self._evacuate({each["id"]: each["name"] for each in listed if each["host"] == host}, host)

    def _evacuate(self, names: Mapping[str, str], host: str) -> None:
        """Evacuate servers, given as uuid -> name; RoostError at the end if some of them could not be."""
        begun, refused = [], 0
        for uuid, name in names.items():
            try:
                self._client.evacuate_server(uuid)
            except UnknownName:  # its client has deleted it
                continue
            except BadInput as error:
                refused += 1
                self._out.print(Text.assemble("  ", (name, "bold"), f": {error}"), soft_wrap=True)
            else:
                begun.append(uuid)
        for server in self._wait_until_settled(begun):
            self._out.print(_server_line(server, f"was on {host}"))
        if refused:
            raise RoostError(f"{refused} of {len(names)} servers of {host} could not be evacuated")

    # --- waiting and printing ----------------------------------------------------------------------------

    def _wait_until_settled(self, uuids: Sequence[str]) -> list[dict[str, Any]]:
        """The servers, once nothing is being done to them."""
        found: list[dict[str, Any]] = []

        def are_settled() -> bool:
            found[:] = [self._client.get_server(uuid) for uuid in uuids]
            return all(each["task_state"] is None for each in found)

        self._wait_until(are_settled)
        return sorted(found, key=lambda each: str(each["name"]))

    def _wait_until(self, condition: Callable[[], bool]) -> float:
        """Seconds until the condition holds; RoostError if it does not in time. Ends early with the demonstration."""
        clock, started = self._cloud.clock, self._cloud.clock.monotonic()
        while not condition() and not clock.wait(self._stop, POLL_SECONDS):
            if clock.monotonic() - started > PATIENCE_SECONDS:
                problem = f"the demonstration waited {PATIENCE_SECONDS:g} seconds in vain"
                raise RoostError(problem, f"look at {self._cloud.state.log_file}")
        return clock.monotonic() - started

    def _head(self, remark: str, command: str) -> None:
        self._steps += 1
        self._out.print()
        self._out.print(f"[bold]{self._steps}.[/bold] {remark}")
        if command:
            self._command(command)

    def _command(self, command: str) -> None:
        self._out.print(f"  [dim]$[/dim] [cyan]{command}[/cyan]", soft_wrap=True)


def _server_line(server: Mapping[str, Any], remark: str) -> Text:
    status = str(server["status"])
    line = Text.assemble("  ", (str(server["name"]), "bold"), " ", (status, STYLES.get(status, "")))
    if server["host"]:
        line.append(f" on {server['host']}")
    return line.append(f" ({remark})" if server["host"] else f": {remark}")


def _placement_table(servers: Sequence[Mapping[str, Any]], choices: Mapping[str, Selection]) -> Table:
    """Servers with their hosts, and what each weigher gave for them. `choices`: those of the scheduler, by uuid."""
    ranked = {uuid: each.ranked for uuid, each in choices.items() if each.ranked}
    scores = [each.scores for each in ranked.values()]
    weighers = dict.fromkeys(name for each in scores for name in each)
    names = [name for name in weighers if any(name in each and each[name].contribution for each in scores)]
    table = Table(box=None, padding=(0, 0, 0, 2), header_style="dim")
    for heading in ("Server", "Status", "Host"):
        table.add_column(heading)
    for heading in (*(name.removesuffix("Weigher") for name in names), "Total"):
        table.add_column(heading, justify="right")
    for server in servers:
        status, host = str(server["status"]), server["host"]
        cells = _score_cells(ranked.get(server["id"]), host, names)
        table.add_row(str(server["name"]), Text(status, style=STYLES.get(status, "")), host or "-", *cells)
    return table


def _score_cells(ranked: Ranked | None, host: str | None, names: Sequence[str]) -> list[str]:
    """A cell for each weigher and one for the total; empty where the server is not on the host that was ranked."""
    if ranked is None or ranked.host != host:
        return [*[""] * len(names), ""]
    if not ranked.scores:
        return [*[""] * len(names), "only host"]
    return [*(f"{ranked.scores[name].contribution:.2f}" for name in names), f"{ranked.weight:.2f}"]
