# SPDX-License-Identifier: Apache-2.0
"""The cloud that a scheduler serves: where its replica comes from, who grants claims, what else runs beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from roost.model import ServerGroup
from roost.options.settings import Settings
from roost.records.recorder import DecisionRecorder
from roost.scheduler.replica import HostManager
from roost.scheduler.rounds import Granter

if TYPE_CHECKING:
    from roost.messages.interface import Notifier, Transport
    from roost.scheduler.manager import SchedulerManager


class BackgroundTask(NamedTuple):
    """Something that is done now and then, in a thread of its own."""

    name: str
    run: Callable[[], object]
    seconds: Callable[[], float]
    """Time between two runs."""
    is_writing: bool = False
    """Whether it writes to the cloud's databases: a scheduler that only watches leaves it out."""


class Cloud(Protocol):
    """What the service of a scheduler needs of its cloud."""

    @property
    def replica(self) -> HostManager:
        """The fleet as this scheduler knows it."""

    @property
    def granter(self) -> Granter:
        """What grants claims on its hosts."""

    @property
    def recorder(self) -> DecisionRecorder | None:
        """Keeps the decisions; None where this cloud has no place for them."""

    def check_databases(self) -> None:
        """Check that the databases with which everything begins can be used; a DatabaseError if not."""

    def open(self) -> None:
        """Open what is needed before the replica is read; RoostError where that cannot be used."""

    def find_group(self, uuid: str) -> ServerGroup | None:
        """A server group by its uuid; None where there is none."""

    def read_request_spec(self, instance_uuid: str) -> Any | None:
        """The RequestSpec object that is stored for an instance, as JSON data; None where this cloud stores none.

        BadInput where it should be there and is not.
        """

    def read_hosts_up(self, topic: str, seconds_until_down: float) -> list[str]:
        """Names of the hosts whose service of a topic is enabled and alive, read now."""

    def older_methods(
        self, manager: SchedulerManager, transport: Transport, notifier: Notifier | None
    ) -> object | None:
        """The methods of messages before 4.0; None where the cloud has no services that send them."""

    def tasks(self) -> Sequence[BackgroundTask]:
        """What has to be done beside requests."""

    def unready(self) -> list[str]:
        """Reasons of the cloud why no request should be sent here now; empty when ready."""

    def check(self, settings: Settings) -> None:
        """Check addresses in new settings, which take effect at the next start; RoostError where one is wrong."""

    def reload(self, settings: Settings) -> None:
        """Go by these settings, which were checked, from now on."""

    def close(self) -> None:
        """Close all connections."""
