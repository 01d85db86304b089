# SPDX-License-Identifier: Apache-2.0
"""`roost flavor list` and `roost image list`: what servers can be made of."""

from __future__ import annotations

import argparse

from roost.cli.client_command import ReadingCommand
from roost.cli.output import Report
from roost.cli.server_report import FLAVOR_COLUMNS, IMAGE_COLUMNS, list_report


class FlavorList(ReadingCommand):
    """List flavors, the sizes of servers."""

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each flavor; exit code 0."""
        with self.client(parsed_args) as client:
            return list_report(client.list_flavors(), FLAVOR_COLUMNS, "flavor"), 0


class ImageList(ReadingCommand):
    """List images, from which servers boot."""

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each image; exit code 0."""
        with self.client(parsed_args) as client:
            return list_report(client.list_images(), IMAGE_COLUMNS, "image"), 0
