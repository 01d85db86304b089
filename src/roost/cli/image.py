# SPDX-License-Identifier: Apache-2.0
"""`roost image ...`: what servers boot. Images have sizes and properties, which rules read, and no data."""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.arguments import non_empty, whole_number
from roost.cli.catalogue_command import (
    CatalogueCommand,
    DeleteCommand,
    ShowCommand,
    add_property_argument,
    given,
)
from roost.cli.client_command import ReadingCommand
from roost.cli.output import Report, fields
from roost.cli.server_report import IMAGE_COLUMNS, by_name, list_report, record_report
from roost.client.api_client import IMAGE_FIELDS, ApiCatalogue
from roost.client.interface import Record
from roost.errors import BadInput

IMAGE = "image"
FIELDS = fields(*IMAGE_FIELDS)
PROPERTY = "property, such as hw_architecture=x86_64"
VISIBILITIES = ("public", "private", "shared", "community")


class ImageList(ReadingCommand):
    """List images, from which servers boot."""

    columns = IMAGE_COLUMNS

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each image, by name; exit code 0."""
        with self.client(parsed_args) as client:
            return list_report(by_name(client.list_images()), IMAGE_COLUMNS, IMAGE), 0


class ImageCreate(CatalogueCommand):
    """Make an image."""

    columns = FIELDS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name, the sizes, properties and the argument that names the cloud."""
        parser.add_argument("name", metavar="NAME", type=non_empty, help="of the image")
        parser.add_argument("--id", metavar="UUID", help="its id (default: a new uuid)")
        _add_fields(parser)
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The image; exit code 0."""
        with self.catalogue(parsed_args) as catalogue:
            fields = given(parsed_args, "name", "id", "min_ram", "min_disk", "visibility")
            return record_report(catalogue.create_image(fields, dict(parsed_args.property))), 0


class ImageShow(ShowCommand):
    """Show an image with its properties."""

    columns = FIELDS
    noun = IMAGE

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The image."""
        return catalogue.find_image(parsed_args.name)


class ImageSet(ShowCommand):
    """Change an image; servers that were built of it stay as they are."""

    columns = FIELDS
    noun = IMAGE

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what can be set."""
        parser.add_argument("--name", dest="new_name", metavar="NAME", type=non_empty, help="another name")
        _add_fields(parser)

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The image as it is then."""
        fields = given(parsed_args, "min_ram", "min_disk", "visibility")
        if parsed_args.new_name:
            fields["name"] = parsed_args.new_name
        if not fields and not parsed_args.property:
            raise BadInput("there is nothing to set", "see roost image set --help")
        return catalogue.set_image(parsed_args.name, fields, dict(parsed_args.property))


class ImageDelete(DeleteCommand):
    """Delete images; servers that were built of them stay."""

    noun = IMAGE

    def find(self, catalogue: ApiCatalogue, name: str) -> Record:
        """The image with this name or id."""
        return catalogue.find_image(name)

    def delete(self, catalogue: ApiCatalogue, found: Record) -> None:
        """Delete an image."""
        catalogue.delete_image(found["id"])


def _add_fields(parser: Any) -> None:
    parser.add_argument("--min-ram", type=whole_number(least=0), metavar="MIB", help="memory that it needs")
    parser.add_argument("--min-disk", type=whole_number(least=0), metavar="GIB", help="disk that it needs")
    shown = parser.add_mutually_exclusive_group()
    for name in VISIBILITIES:
        shown.add_argument(
            f"--{name}", action="store_const", const=name, dest="visibility", help=f"its visibility is {name}"
        )
    add_property_argument(parser, PROPERTY)
