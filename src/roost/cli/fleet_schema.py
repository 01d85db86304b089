# SPDX-License-Identifier: Apache-2.0
"""`roost fleet schema`: the JSON schema of fleet files, apart from the commands that need a database."""

from __future__ import annotations

import argparse
import json
import sys

from roost.cli.commands import RoostCommand
from roost.sources.fields import fleet_schema


class FleetSchema(RoostCommand):
    """Print the JSON schema of a fleet file, for editors and checks."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print the schema on stdout."""
        sys.stdout.write(json.dumps(fleet_schema(), indent=2) + "\n")
