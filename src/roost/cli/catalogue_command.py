# SPDX-License-Identifier: Apache-2.0
"""What the commands share that read and change flavors, images, aggregates and server groups: they ask the API."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from roost.cli.arguments import add_cloud_argument, key_and_value
from roost.cli.client_command import PARTLY_DONE, CommandFrame
from roost.cli.output import Report, ReportCommand, titled
from roost.cli.server_report import record_report
from roost.client.api_client import ApiCatalogue
from roost.client.interface import Record
from roost.client.rpc_client import open_api
from roost.errors import RoostError
from roost.scheduler.all_options import read_options

DELETED_COLUMNS = titled("Name", "ID")


class CatalogueCommand(ReportCommand):
    """Base class of commands about flavors, images, aggregates and server groups of a cloud that has an API."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the argument that names the cloud."""
        add_cloud_argument(parser.add_argument_group("cloud (default: a running roost dev)"))

    @contextmanager
    def catalogue(self, parsed_args: argparse.Namespace) -> Iterator[ApiCatalogue]:
        """The catalogue of the cloud, closed at exit."""
        opened = open_api(read_options(), parsed_args.os_cloud)
        try:
            yield opened.catalogue
        finally:
            opened.close()


class ShowCommand(CatalogueCommand):
    """Base class of commands about one object that is named, which they print when they are done."""

    noun: str
    """What is named, as the help has it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name, the arguments of the command and the one that names the cloud."""
        parser.add_argument("name", metavar=self.noun.upper().replace(" ", "_"), help="its name or id")
        self.add_own_arguments(parser)
        super().add_arguments(parser)

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of this command; none by default."""

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """What the command is for; the object as it is then."""
        raise NotImplementedError

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each field; exit code 0."""
        with self.catalogue(parsed_args) as catalogue:
            return record_report(self.do(catalogue, parsed_args)), 0


class UnsetCommand(ShowCommand):
    """Base class of commands that remove properties of one object."""

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --property KEY, of which at least one is needed."""
        parser.add_argument(
            "--property", action="append", required=True, metavar="KEY", help="the property to remove; repeatable"
        )


class DeleteCommand(CatalogueCommand):
    """Base class of commands that delete objects. All are looked up before the first is deleted."""

    columns = DELETED_COLUMNS

    noun: str
    """What is named, as the help has it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the names and the argument that names the cloud."""
        metavar = self.noun.upper().replace(" ", "_")
        parser.add_argument("name", metavar=metavar, nargs="+", help="its name or id; several may be given")
        super().add_arguments(parser)

    def find(self, catalogue: ApiCatalogue, name: str) -> Record:
        """The object with this name or id."""
        raise NotImplementedError

    def delete(self, catalogue: ApiCatalogue, found: Record) -> None:
        """Delete an object."""
        raise NotImplementedError

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each object that was deleted; exit code 0 if all were, PARTLY_DONE if some were."""
        with self.catalogue(parsed_args) as catalogue:
            known = {each["id"]: each for each in (self.find(catalogue, name) for name in parsed_args.name)}
            done, code = self._delete_each(list(known.values()), lambda each: self.delete(catalogue, each))
        rows = [(str(each["name"]), str(each["id"])) for each in done]
        return Report(done, tuple(DELETED_COLUMNS), rows, caption=f"deleted: {len(done)} of {len(known)}"), code

    def _delete_each(self, records: Sequence[Record], delete: Callable[[Record], None]) -> tuple[list[Record], int]:
        """Delete each; the error of a single one is raised, of several each error is printed."""
        done, codes = [], [0]
        for record in records:
            try:
                delete(record)
                done.append(record)
            except RoostError as error:
                if len(records) == 1:
                    raise
                codes.append(cast(CommandFrame, self.app).report_error(error))
        return done, PARTLY_DONE if done and len(codes) > 1 else max(codes)


def add_property_argument(parser: Any, what: str) -> None:
    """Add --property KEY=VALUE. `what`: the meaning of properties."""
    parser.add_argument(
        "--property", action="append", default=[], type=key_and_value, metavar="KEY=VALUE", help=f"{what}; repeatable"
    )


def given(parsed_args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Name -> value of those arguments that were given."""
    return {name: getattr(parsed_args, name) for name in names if getattr(parsed_args, name) is not None}
