# SPDX-License-Identifier: Apache-2.0
"""The options that say which kind of cloud a scheduler serves, and by which nova's databases are found.

`[database] connection`, which fills in the templates of cell mappings, is declared in `store/engine.py`; [placement]
is keystoneauth's.
"""

from __future__ import annotations

from dataclasses import dataclass

from roost.errors import OptionError
from roost.options.declare import option

OWN, NOVA = "own", "nova"
API_DATABASE = "[api_database] connection"


@dataclass(frozen=True)
class CloudOptions:
    """Which cloud it is."""

    cloud: str = option(
        OWN,
        choices=(OWN, NOVA),
        group="roost",
        reloads=False,
        in_fleet=False,
        help="own: fleet and claims are in Roost's database; nova: Roost takes the place of nova-scheduler",
    )
    placement_read_interval: int = option(
        5,
        min=1,
        group="roost",
        reloads=False,
        help="in a nova cloud: seconds between two reads of all providers of placement",
    )
    placement_checks_claims: bool = option(
        True,
        group="roost",
        reloads=False,
        help="in a nova cloud: look after each claim whether placement granted the same room twice, and take it back",
    )
    service_record: bool = option(
        False,
        group="roost",
        reloads=False,
        help="in a nova cloud: keep the row of this scheduler in nova's list of services, in [database] connection",
    )
    discover_hosts_in_cells_interval: int = option(
        -1,
        min=-1,
        group="scheduler",
        reloads=False,
        help="in a nova cloud: seconds between two searches for hosts without a host mapping; less than 1: never",
    )
    state_directory: str = option(
        "",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="in a nova cloud: folder in which a scheduler notes its claims, so that those that a killed one did not "
        "answer are released, and its decisions; default: the one that systemd makes for the service, if any",
    )
    disable_fallback_pcpu_query: bool = option(
        False,
        group="workarounds",
        reloads=False,
        help="in a nova cloud: dedicated CPUs are claimed as PCPU only, never as VCPU of hosts that have no PCPU",
    )


@dataclass(frozen=True)
class ShadowOptions:
    """Whether the scheduler decides beside another one, without claiming anything."""

    shadow: bool = option(
        False,
        group="roost",
        reloads=False,
        in_fleet=False,
        help="decide beside the live scheduler, claim nothing, and report where the choices differ",
    )
    shadow_topic: str = option(
        "scheduler_shadow",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="with shadow: topic on which requests of clients are answered; it is never the live scheduler's",
    )
    shadow_notifications_topic: str = option(
        "roost_shadow",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="with shadow: topic of nova's versioned notifications; one of [notifications] "
        "versioned_notifications_topics of the live scheduler",
    )
    shadow_notifications_pool: str = option(
        "",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="with shadow: name of a queue of its own on that topic, for a topic on which others listen too; empty: "
        "none",
    )
    shadow_report: str = option(
        "",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="with shadow: file to which a line of JSON is added for each request; empty: log and metrics only",
    )
    shadow_outcome_timeout: int = option(
        60,
        min=1,
        group="roost",
        reloads=False,
        in_fleet=False,
        help="with shadow: seconds to wait until it is known which host the live scheduler chose",
    )

    def check_topic(self, live_topic: str) -> None:
        """OptionError where requests of the live scheduler would be answered without a claim."""
        if self.shadow_topic == live_topic:
            problem = f"[roost] shadow_topic = {self.shadow_topic} is the topic of the live scheduler"
            raise OptionError(problem, "name another one: requests would be answered and not claimed")


@dataclass(frozen=True)
class ApiDatabaseOptions:
    """Address of nova's API database; nova 34's defaults."""

    connection: str | None = option(
        None,
        group="api_database",
        reloads=False,
        secret=True,
        in_fleet=False,
        help="address of nova's API database: mysql+pymysql://... or postgresql://...; it is only read",
    )
    connection_recycle_time: int = option(
        3600,
        min=-1,
        group="api_database",
        reloads=False,
        help="seconds after which a connection to the API database is replaced by a new one; -1: never",
    )

    def __repr__(self) -> str:
        """All values except the URL, which may contain a password."""
        return f"ApiDatabaseOptions({vars(self) | {'connection': '***'}})"


@dataclass(frozen=True)
class CellDatabaseOptions:
    """How the databases of nova's cells are read."""

    cell_database_user: str = option(
        "",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="user for the cell databases instead of the one in the cell mappings; the right to SELECT is enough",
    )
    cell_database_password: str = option(
        "",
        group="roost",
        reloads=False,
        secret=True,
        in_fleet=False,
        help="password of cell_database_user",
    )
    database_reconcile_interval: int = option(
        60,
        min=1,
        group="roost",
        reloads=False,
        help="seconds between two comparisons of the replica with all rows of nova's databases",
    )

    def __repr__(self) -> str:
        """All values except the password."""
        return f"CellDatabaseOptions({vars(self) | {'cell_database_password': '***'}})"
