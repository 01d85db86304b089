# SPDX-License-Identifier: Apache-2.0
"""The fleet in the database: import and export of fleet files, reports of agents, and the records of hosts.

| table | owner |
| --- | --- |
| `compute_nodes`, `node_traits`, `inventories` | `node_writer.py` writes, `node_reader.py` reads |
| `services` | `services.py` |
| `heartbeat_probes` | `outages.py`, which says what counts as silence |
| `servers` | `servers.py` |
| `aggregates` with metadata and hosts | `aggregates.py` |
| `flavors`, `images`, `server_groups` with their parts | `catalogue.py` |

What clients of the API create, change and list of these tables is in modules of its own, one per subject:
`flavor_catalogue.py`, `image_catalogue.py`, `aggregate_catalogue.py`, `service_catalogue.py`,
`hypervisor_catalogue.py`, `zone_catalogue.py` and `group_catalogue.py`.

What a claim changes belongs to the ledger (`roost.claims`): `consumers`, `allocations`, the `used` of `inventories`,
slots and hosts of server groups, and the free amounts of nodes. An import writes consumers and allocations too
(`instance_import.py`, `node_writer.py`), under the locks of their nodes and in the ledger's lock order: groups first,
then nodes by id.

Two readers outside of this package: the ledger, which must not import it, reads nodes, groups and servers under its
own locks and in its audit; `scheduler/replica/usage_reader.py` reads what a claim changes, in one round trip.
"""

from roost.inventory.agent_reports import delete_node, save_report, save_statistics
from roost.inventory.aggregate_catalogue import (
    AggregateRecord,
    add_host_to_aggregate,
    create_aggregate,
    delete_aggregate,
    get_aggregate,
    list_aggregates,
    remove_host_from_aggregate,
    update_aggregate,
)
from roost.inventory.aggregates import HostAggregates, aggregates_of_hosts, read_aggregates
from roost.inventory.catalogue import find_group, read_flavors, read_group, read_images
from roost.inventory.changed_hosts import ChangedHost, read_changed_hosts
from roost.inventory.exporter import export_fleet, fleet_document, read_fleet_document
from roost.inventory.flavor_catalogue import (
    FlavorFilters,
    FlavorRecord,
    NewFlavor,
    create_flavor,
    delete_extra_spec,
    delete_flavor,
    get_flavor,
    list_flavors,
    merge_extra_specs,
    update_flavor_description,
)
from roost.inventory.group_catalogue import (
    GroupRecord,
    NewGroup,
    adopt_group,
    count_groups,
    create_group,
    delete_group,
    get_group,
    list_groups,
    read_groups_of_server,
)
from roost.inventory.hypervisor_catalogue import (
    HostedServer,
    HypervisorRecord,
    HypervisorTotals,
    get_hypervisor,
    list_hypervisors,
    list_node_ids,
    sum_hypervisors,
)
from roost.inventory.image_catalogue import (
    ImageFilters,
    ImageRecord,
    NewImage,
    Range,
    create_image,
    delete_image,
    get_image,
    list_images,
    update_image,
)
from roost.inventory.import_summary import ImportCounts, ImportSummary
from roost.inventory.importer import import_fleet
from roost.inventory.node_reader import INSTANCE_CONSUMERS, ReadWarnings, StoredNode, make_instance, read_nodes
from roost.inventory.node_writer import find_host, find_node_ids
from roost.inventory.outages import (
    HeartbeatRule,
    Outage,
    ProbeRecord,
    microseconds,
    probe_seconds,
    read_heartbeat_rule,
    read_probe,
    save_probe,
)
from roost.inventory.paging import Page, SortBy
from roost.inventory.row_decoder import (
    UNREPORTED_FIELDS,
    JsonCache,
    as_decoded,
    as_triples,
    free_disk_gb,
    reported_fields,
    undecoded,
)
from roost.inventory.servers import (
    PLACED_SERVERS,
    find_known_servers,
    find_server_places,
    save_server_scheduled,
    save_server_state,
)
from roost.inventory.service_catalogue import (
    LivenessAndZones,
    ServiceRecord,
    delete_service,
    get_service,
    list_services,
)
from roost.inventory.services import (
    is_agent_up,
    read_agents_on,
    read_hosts_up,
    read_last_heartbeats,
    read_longest_silence,
    save_heartbeats,
    save_service_heartbeat,
    set_service_flags,
)
from roost.inventory.zone_catalogue import ZoneRecord, list_zones
from roost.inventory.zones import read_zones

__all__ = [
    "INSTANCE_CONSUMERS",
    "PLACED_SERVERS",
    "UNREPORTED_FIELDS",
    "AggregateRecord",
    "ChangedHost",
    "FlavorFilters",
    "FlavorRecord",
    "GroupRecord",
    "HeartbeatRule",
    "HostAggregates",
    "HostedServer",
    "HypervisorRecord",
    "HypervisorTotals",
    "ImageFilters",
    "ImageRecord",
    "ImportCounts",
    "ImportSummary",
    "JsonCache",
    "LivenessAndZones",
    "NewFlavor",
    "NewGroup",
    "NewImage",
    "Outage",
    "Page",
    "ProbeRecord",
    "Range",
    "ReadWarnings",
    "ServiceRecord",
    "SortBy",
    "StoredNode",
    "ZoneRecord",
    "add_host_to_aggregate",
    "adopt_group",
    "aggregates_of_hosts",
    "as_decoded",
    "as_triples",
    "count_groups",
    "create_aggregate",
    "create_flavor",
    "create_group",
    "create_image",
    "delete_aggregate",
    "delete_extra_spec",
    "delete_flavor",
    "delete_group",
    "delete_image",
    "delete_node",
    "delete_service",
    "export_fleet",
    "find_group",
    "find_host",
    "find_known_servers",
    "find_node_ids",
    "find_server_places",
    "fleet_document",
    "free_disk_gb",
    "get_aggregate",
    "get_flavor",
    "get_group",
    "get_hypervisor",
    "get_image",
    "get_service",
    "import_fleet",
    "is_agent_up",
    "list_aggregates",
    "list_flavors",
    "list_groups",
    "list_hypervisors",
    "list_images",
    "list_node_ids",
    "list_services",
    "list_zones",
    "make_instance",
    "merge_extra_specs",
    "microseconds",
    "probe_seconds",
    "read_agents_on",
    "read_aggregates",
    "read_changed_hosts",
    "read_flavors",
    "read_fleet_document",
    "read_group",
    "read_groups_of_server",
    "read_heartbeat_rule",
    "read_hosts_up",
    "read_images",
    "read_last_heartbeats",
    "read_longest_silence",
    "read_nodes",
    "read_probe",
    "read_zones",
    "remove_host_from_aggregate",
    "reported_fields",
    "save_heartbeats",
    "save_probe",
    "save_report",
    "save_server_scheduled",
    "save_server_state",
    "save_service_heartbeat",
    "save_statistics",
    "set_service_flags",
    "sum_hypervisors",
    "undecoded",
    "update_aggregate",
    "update_flavor_description",
    "update_image",
]
