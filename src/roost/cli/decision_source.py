# SPDX-License-Identifier: Apache-2.0
"""Where a command finds decisions: at a conductor, or in a nova cloud in the scheduler's own file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from roost.cli.arguments import config_files
from roost.cli.client_command import ClientCommand
from roost.client.interface import Record
from roost.clock import SystemClock
from roost.errors import BadInput
from roost.model.uuids import canonical_uuid
from roost.options.settings import Settings
from roost.records.decisions import DecisionQueries, DecisionStore
from roost.scheduler.all_options import read_options
from roost.scheduler.cloud_options import NOVA, CloudOptions
from roost.store.engine import DatabaseOptions, open_engine
from roost.store.store_clock import StoreClock


class DecisionSource(Protocol):
    """What can be asked about decisions."""

    def list_decisions(self, filters: Mapping[str, Any]) -> list[Record]:
        """Decisions that match all filters, the latest first."""

    def get_decision(self, decision: str, with_state: bool = False) -> Record:
        """A decision by its id, by the id of its request, or the latest about a server."""


class DecisionCommand(ClientCommand):
    """Base class of commands about decisions."""

    @contextmanager
    def decisions(self, parsed_args: argparse.Namespace) -> Iterator[DecisionSource]:
        """The decisions of the cloud that the arguments name, closed at exit."""
        settings = read_options(config_files(parsed_args))
        if parsed_args.os_cloud is None and settings.fill(CloudOptions).cloud == NOVA:
            with _recorded_in_file(settings) as found:
                yield found
        else:
            with self.client(parsed_args) as client:
                yield client


@contextmanager
def _recorded_in_file(settings: Settings) -> Iterator[DecisionSource]:
    """The decisions that schedulers of a nova cloud have recorded on this machine."""
    from roost.nova.decision_file import FILE_NAME  # the package needs keystoneauth, which is slow to import

    folder = settings.fill(CloudOptions).state_directory
    hint = "set it to the folder that the scheduler has: systemd's is /var/lib/roost"
    if not folder:
        raise BadInput("[roost] state_directory is not set: in a nova cloud decisions are kept there", hint)
    file = Path(folder, FILE_NAME)
    if not file.is_file():
        raise BadInput(f"{file}: no scheduler has recorded decisions there", hint)
    engine = open_engine(DatabaseOptions(connection=f"sqlite:///{file}"))
    try:
        yield DecisionQueries(DecisionStore(engine, StoreClock(engine, SystemClock())), canonical_uuid)
    finally:
        engine.dispose()
