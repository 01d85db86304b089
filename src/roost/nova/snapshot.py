# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a nova cloud: read from its databases and from placement; nothing is written.

nova has no table of images, and a scheduler has no right to that of flavors. So flavors are those of the instances
that run, as they were placed, and there are no images.

`summarize_connections` has the connections that a scheduler in a nova cloud would use, as configured. Nothing is
connected; no secrets.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from roost.clock import Clock
from roost.hosts import HostRecord
from roost.model import Aggregate, Flavor, Service
from roost.model.json_records import to_json
from roost.nova.backend import CELL_DATABASE, NovaCloud
from roost.nova.databases.api import ApiReader
from roost.nova.databases.engines import parse_nova_url
from roost.nova.placement.client import describe_placement, make_adapter
from roost.nova.source import NovaSource
from roost.options.settings import Settings
from roost.records.fleet_export import fleet_document
from roost.scheduler.build import filters_to_run
from roost.scheduler.options import API_DATABASE, NOVA, ApiDatabaseOptions, CellDatabaseOptions, CloudOptions
from roost.services.metrics import Metrics
from roost.sources.snapshot import Snapshot, deciding_options, servers_of_instances
from roost.store.engine import redacted_url
from roost.store.options import DatabaseOptions

_SOURCE = "the nova cloud"
_GROUP_FIELDS = ("name", "uuid", "policy", "members", "rules")
Entry = dict[str, Any]


def take_snapshot(settings: Settings, files: Sequence[Path], clock: Clock) -> Snapshot:
    """A snapshot of the cloud of these settings: nova's databases, then placement's view of them.

    They have no transaction in common: what changes while it is taken may be seen by one and not by the other.
    """
    randomness = random.Random()  # noqa: S311 - nothing is claimed
    cloud = NovaCloud(settings, files, clock=clock, randomness=randomness, metrics=Metrics())
    try:
        cloud.providers.read_all()
        return snapshot_of_source(cloud.source, cloud.api, settings, clock.now())
    finally:
        cloud.close()


def snapshot_of_source(source: NovaSource, api: ApiReader, settings: Settings, now: datetime) -> Snapshot:
    """A snapshot of what the source reads now; placement's providers were read before."""
    found = source.read_all()
    records = [node.record for node in found.nodes]
    document = fleet_document(
        records,
        {record.host: _service_entry(record.service) for record in records},
        aggregates=list(_aggregate_entries(found.aggregates.values(), {record.host for record in records})),
        flavors=list(_flavor_entries(records)),
        server_groups=list(_with_own_names(to_json(each) for each in api.read_all_groups())),
    )
    options = deciding_options(settings)
    options["filter_scheduler"]["enabled_filters"] = [each.rpartition(".")[2] for each in filters_to_run(settings)]
    servers = servers_of_instances((record, [(record.host, record.nodename)]) for record in records)
    return Snapshot(now, options, document, list(servers), source=_SOURCE)


def _service_entry(service: Service) -> Entry:
    """The service of a host, up or down as of this moment; without values that are the default."""
    defaults = Service()
    return {name: value for name, value in vars(service).items() if value != getattr(defaults, name)}


def _aggregate_entries(aggregates: Iterable[Aggregate | None], hosts: Collection[str]) -> Iterator[Entry]:
    for each in aggregates:
        if each is not None:
            members = [host for host in each.hosts if host in hosts]
            yield {"name": each.name, "uuid": each.uuid, "metadata": dict(each.metadata), "hosts": members}


def _flavor_entries(records: Iterable[HostRecord]) -> Iterator[Entry]:
    """The flavors of the instances, by name: of several with one name, the one that most have."""
    counts: dict[str, dict[Any, int]] = {}
    known: dict[Any, Flavor] = {}
    for flavor in (each.flavor for record in records for each in record.instances):
        if flavor is not None and flavor.name:
            key = str(flavor.to_details())
            known.setdefault(key, flavor)
            of_name = counts.setdefault(flavor.name, {})
            of_name[key] = of_name.get(key, 0) + 1
    for name in sorted(counts):
        most = known[max(counts[name], key=lambda key: counts[name][key])]
        yield {"vcpus": most.vcpus, "memory_mb": most.memory_mb, **most.to_details(), "id": most.id}


def _with_own_names(groups: Iterable[Entry]) -> Iterator[Entry]:
    """Groups as entries; a name that occurred before is left out, because names in a fleet are unique."""
    seen: set[str] = set()
    for each in groups:
        kept = {name: each[name] for name in _GROUP_FIELDS if each.get(name)}
        yield {name: value for name, value in kept.items() if not (name == "name" and value in seen)}
        seen.add(each["name"])


def summarize_connections(settings: Settings, files: Sequence[Path]) -> dict[str, Any]:
    """The connections as JSON data; an OptionError for the first that cannot be used."""
    return {
        "kind": NOVA,
        "api_database": find_api_database(settings),
        "cell_database_user": settings.fill(CellDatabaseOptions).cell_database_user or None,
        "placement": find_placement(files),
    }


def find_api_database(settings: Settings) -> str:
    """The address of the API database, without its password; DatabaseAddressError if it is wrong."""
    return redacted_url(parse_nova_url(settings.fill(ApiDatabaseOptions).connection, API_DATABASE))


def check_service_record(settings: Settings) -> None:
    """DatabaseAddressError if the service record is switched on and the address of its database is wrong."""
    if settings.fill(CloudOptions).service_record:
        parse_nova_url(settings.fill(DatabaseOptions).connection, CELL_DATABASE)


def find_placement(files: Sequence[Path]) -> dict[str, str]:
    """How placement is found, by the names of keystoneauth's options; OptionError if [placement] is wrong."""
    make_adapter(files)
    return describe_placement(files)
