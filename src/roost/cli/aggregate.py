# SPDX-License-Identifier: Apache-2.0
"""`roost aggregate ...`: groups of hosts with metadata, which filters read; availability zones are some of them."""

from __future__ import annotations

import argparse

from roost.cli.arguments import non_empty
from roost.cli.catalogue_command import (
    CatalogueCommand,
    DeleteCommand,
    ShowCommand,
    UnsetCommand,
    add_property_argument,
    given,
)
from roost.cli.output import Report, fields
from roost.cli.server_report import list_report, record_report
from roost.client.api_client import AGGREGATE_FIELDS, ApiCatalogue
from roost.client.interface import Record
from roost.errors import BadInput

AGGREGATE = "aggregate"
FIELDS = fields(*AGGREGATE_FIELDS)
COLUMNS = {"ID": "id", "Name": "name", "Zone": "availability_zone", "Hosts": "hosts", "Metadata": "metadata"}
MINOR = frozenset({"Hosts", "Metadata"})
"""Columns that only --long shows."""
METADATA = "metadata, such as rack=r7"


class AggregateList(CatalogueCommand):
    """List aggregates."""

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --long and the argument that names the cloud."""
        parser.add_argument("--long", action="store_true", help="show more columns")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each aggregate; exit code 0."""
        with self.catalogue(parsed_args) as catalogue:
            found = catalogue.list_aggregates()
        return list_report(found, COLUMNS, AGGREGATE, frozenset() if parsed_args.long else MINOR), 0


class AggregateCreate(CatalogueCommand):
    """Make an aggregate without hosts."""

    columns = FIELDS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name, the zone, metadata and the argument that names the cloud."""
        parser.add_argument("name", metavar="NAME", type=non_empty, help="of the aggregate")
        parser.add_argument("--zone", type=non_empty, metavar="ZONE", help="its hosts are this availability zone")
        add_property_argument(parser, METADATA)
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The aggregate; exit code 0."""
        with self.catalogue(parsed_args) as catalogue:
            made = catalogue.create_aggregate(parsed_args.name, parsed_args.zone, dict(parsed_args.property))
        return record_report(made), 0


class AggregateShow(ShowCommand):
    """Show an aggregate with its hosts and metadata."""

    columns = FIELDS
    noun = AGGREGATE

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The aggregate."""
        return catalogue.find_aggregate(parsed_args.name)


class AggregateSet(ShowCommand):
    """Change the name, the zone or metadata of an aggregate."""

    columns = FIELDS
    noun = AGGREGATE

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what can be set."""
        parser.add_argument("--name", dest="new_name", metavar="NAME", type=non_empty, help="another name")
        parser.add_argument("--zone", type=non_empty, metavar="ZONE", help="its hosts are this availability zone")
        add_property_argument(parser, METADATA)

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The aggregate as it is then."""
        wanted = given(parsed_args, "new_name", "zone")
        if not wanted and not parsed_args.property:
            raise BadInput("there is nothing to set", "give --name, --zone or --property")
        keys = {"new_name": "name", "zone": "availability_zone"}
        changes = {keys[name]: value for name, value in wanted.items()}
        return catalogue.set_aggregate(parsed_args.name, changes, dict(parsed_args.property))


class AggregateUnset(UnsetCommand):
    """Remove metadata from an aggregate."""

    columns = FIELDS
    noun = AGGREGATE

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The aggregate as it is then."""
        return catalogue.unset_aggregate(parsed_args.name, parsed_args.property)


class AggregateHostCommand(ShowCommand):
    """Base class of commands about an aggregate and a host."""

    columns = FIELDS
    noun = AGGREGATE

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the host."""
        parser.add_argument("host", metavar="HOST", help="its name")


class AggregateAddHost(AggregateHostCommand):
    """Add a host to an aggregate."""

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The aggregate as it is then."""
        return catalogue.add_host(parsed_args.name, parsed_args.host)


class AggregateRemoveHost(AggregateHostCommand):
    """Remove a host from an aggregate; its servers stay."""

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The aggregate as it is then."""
        return catalogue.remove_host(parsed_args.name, parsed_args.host)


class AggregateDelete(DeleteCommand):
    """Delete aggregates that have no hosts."""

    noun = AGGREGATE

    def find(self, catalogue: ApiCatalogue, name: str) -> Record:
        """The aggregate with this name or id."""
        return catalogue.find_aggregate(name)

    def delete(self, catalogue: ApiCatalogue, found: Record) -> None:
        """Delete an aggregate."""
        catalogue.delete_aggregate(found["id"])
