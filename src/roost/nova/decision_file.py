# SPDX-License-Identifier: Apache-2.0
"""Decisions in a nova cloud: nova's databases have no place for them, so they are kept in a file of this machine.

All schedulers of one machine share the file. Without it they decide as ever.
"""

from __future__ import annotations

import logging
import os
import random
from pathlib import Path

from roost.clock import Clock
from roost.errors import RoostError
from roost.options.settings import Settings
from roost.records.options import DecisionOptions
from roost.scheduler.options import CloudOptions
from roost.scheduler.process import DecisionKeeping
from roost.services.metrics import Metrics
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade
from roost.store.store_clock import StoreClock

LOG = logging.getLogger(__name__)
FILE_NAME = "decisions.sqlite"


class DecisionFile(DecisionKeeping):
    """The record of decisions in a SQLite file, which is made when it is opened."""

    def __init__(
        self, path: Path, settings: Settings, *, clock: Clock, randomness: random.Random, metrics: Metrics
    ) -> None:
        """`path`: of the file; its folder has to be there."""
        self._path = path
        options = DatabaseOptions(connection=f"sqlite:///{path}", sqlite_synchronous=False)
        self._file_engine = open_engine(options, may_create=True)
        times = StoreClock(self._file_engine, clock)
        super().__init__(self._file_engine, times, settings, clock=clock, randomness=randomness, metrics=metrics)

    def open(self) -> None:
        """Make or upgrade the tables. Where that fails a warning says so: placements do not need them."""
        try:
            upgrade(self._file_engine)
        except RoostError as error:
            LOG.warning("decisions are not recorded: %s", error)

    def close(self) -> None:
        """Write decisions that wait, and close the file."""
        super().close()
        self._file_engine.dispose()


def decision_file(
    settings: Settings, *, clock: Clock, randomness: random.Random, metrics: Metrics
) -> DecisionFile | None:
    """The record of decisions of a scheduler; None without a folder, or where an option says that there is none."""
    folder = state_folder(settings.fill(CloudOptions))
    if folder is None or not settings.fill(DecisionOptions).record_decisions:
        return None
    return DecisionFile(folder / FILE_NAME, settings, clock=clock, randomness=randomness, metrics=metrics)


def state_folder(options: CloudOptions) -> Path | None:
    """Where a scheduler keeps files of its own: as the options say, or else the folder that systemd made for it."""
    given = options.state_directory or os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(given) if given else None
