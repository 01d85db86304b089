# SPDX-License-Identifier: Apache-2.0
"""`roost flavor ...`: the sizes that servers can have, and what else they ask of hosts."""

from __future__ import annotations

import argparse

from roost.cli.arguments import non_empty, whole_number
from roost.cli.catalogue_command import (
    CatalogueCommand,
    DeleteCommand,
    ShowCommand,
    UnsetCommand,
    add_property_argument,
    given,
)
from roost.cli.client_command import ReadingCommand
from roost.cli.output import Report, fields
from roost.cli.server_report import FLAVOR_COLUMNS, by_name, list_report, record_report
from roost.client.api_client import FLAVOR_FIELDS, ApiCatalogue
from roost.client.interface import Record
from roost.errors import BadInput

FLAVOR = "flavor"
FIELDS = fields(*FLAVOR_FIELDS)
EXTRA_SPEC = "extra spec, such as hw:cpu_policy=dedicated"


class FlavorList(ReadingCommand):
    """List flavors, the sizes of servers."""

    columns = FLAVOR_COLUMNS

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each flavor, by name; exit code 0."""
        with self.client(parsed_args) as client:
            return list_report(by_name(client.list_flavors()), FLAVOR_COLUMNS, FLAVOR), 0


class FlavorCreate(CatalogueCommand):
    """Make a flavor."""

    columns = FIELDS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name, the sizes, extra specs and the argument that names the cloud."""
        parser.add_argument("name", metavar="NAME", type=non_empty, help="of the flavor")
        parser.add_argument("--id", metavar="ID", help="its id (default: a new uuid)")
        size = parser.add_argument_group("size")
        size.add_argument(
            "--ram", type=whole_number(least=1), default=256, metavar="MIB", help="memory (default: 256)"
        )
        size.add_argument("--vcpus", type=whole_number(least=1), default=1, metavar="N", help="vCPUs (default: 1)")
        sizes = {"disk": "GIB", "ephemeral": "GIB", "swap": "MIB"}
        for name, unit in sizes.items():
            size.add_argument(
                f"--{name}", type=whole_number(least=0), default=0, metavar=unit, help=f"{name} (default: 0)"
            )
        parser.add_argument("--private", action="store_true", help="for administrators alone")
        parser.add_argument("--description", metavar="TEXT", help="what it is for")
        add_property_argument(parser, EXTRA_SPEC)
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The flavor; exit code 0."""
        wanted = {
            "name": parsed_args.name,
            "vcpus": parsed_args.vcpus,
            "memory_mb": parsed_args.ram,
            "root_gb": parsed_args.disk,
            "ephemeral_gb": parsed_args.ephemeral,
            "swap": parsed_args.swap,
            "is_public": not parsed_args.private,
        }
        with self.catalogue(parsed_args) as catalogue:
            more = given(parsed_args, "id", "description")
            return record_report(catalogue.create_flavor({**wanted, **more}, dict(parsed_args.property))), 0


class FlavorShow(ShowCommand):
    """Show a flavor with its extra specs."""

    columns = FIELDS
    noun = FLAVOR

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The flavor."""
        return catalogue.find_flavor(parsed_args.name)


class FlavorSet(ShowCommand):
    """Set the description and extra specs of a flavor; servers that have it stay as they are."""

    columns = FIELDS
    noun = FLAVOR

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what can be set."""
        parser.add_argument("--description", metavar="TEXT", help="what it is for")
        add_property_argument(parser, EXTRA_SPEC)

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The flavor as it is then."""
        if parsed_args.description is None and not parsed_args.property:
            raise BadInput("there is nothing to set", "give --description or --property")
        return catalogue.set_flavor(parsed_args.name, parsed_args.description, dict(parsed_args.property))


class FlavorUnset(UnsetCommand):
    """Remove extra specs from a flavor."""

    columns = FIELDS
    noun = FLAVOR

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The flavor as it is then."""
        return catalogue.unset_flavor(parsed_args.name, parsed_args.property)


class FlavorDelete(DeleteCommand):
    """Delete flavors; servers that have them keep their size."""

    noun = FLAVOR

    def find(self, catalogue: ApiCatalogue, name: str) -> Record:
        """The flavor with this name or id."""
        return catalogue.find_flavor(name)

    def delete(self, catalogue: ApiCatalogue, found: Record) -> None:
        """Delete a flavor."""
        catalogue.delete_flavor(found["id"])
