# SPDX-License-Identifier: Apache-2.0
"""`roost cloud ...`: try the connections and rights that a scheduler in a nova cloud needs."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from roost.cli.arguments import add_config_arguments, config_files
from roost.cli.columns import titled
from roost.cli.output import Report, ReportCommand
from roost.clock import SystemClock
from roost.errors import BadInput
from roost.scheduler.all_options import read_options
from roost.scheduler.cloud_options import NOVA, CloudOptions

if TYPE_CHECKING:
    from roost.nova.surveys import ProbeResult

COLUMNS = titled("Where", "What", "Result", "Details", "Remedy")
LACKING = 1
"""Exit code of `cloud check` where something that a scheduler needs is missing or fails."""


class CloudCheck(ReportCommand):
    """Try all that a scheduler in a nova cloud needs, read-only: databases, placement, broker, filters, hosts.

    Below the table it says how to get what is missing, GRANT lines included; -c remedy shows that as a column.
    """

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that name config files."""
        add_config_arguments(parser, "nova's options and [roost] cloud = nova")

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row per probe; exit code 0 if all that is needed works, else LACKING."""
        files = config_files(parsed_args)
        settings = read_options(files)
        if settings.fill(CloudOptions).cloud != NOVA:
            hint = "write [roost] cloud = nova; for a cloud of Roost's own there is `roost db check`"
            raise BadInput("this checks a nova cloud, and [roost] cloud is own", hint)
        from roost.nova.check import check_cloud  # needs keystoneauth, which is slow to import

        results = check_cloud(settings, files, SystemClock())
        is_good = not any(each.is_in_the_way for each in results)
        return _check_report(results, is_good), 0 if is_good else LACKING


def _check_report(results: Sequence[ProbeResult], is_good: bool) -> Report:
    record: dict[str, Any] = {"is_good": is_good, "probes": [each._asdict() for each in results]}
    rows = [(*each[:4], each.statement or each.remedy) for each in results]
    caption = "\n".join([_summary(results), *_remedies(results)])
    return Report(record, tuple(COLUMNS), rows, caption=caption, minor=frozenset({"Remedy"}))


def _summary(results: Sequence[ProbeResult]) -> str:
    found = Counter(each.result for each in results)
    return ", ".join(f"{count} {result}" for result, count in found.most_common())


def _remedies(results: Sequence[ProbeResult]) -> Iterator[str]:
    """Lines that say what to do: SQL by database, alone on its lines, so that it can be copied."""
    yield from dict.fromkeys(f"{each.where}, {each.what}: {each.remedy}" for each in results if each.remedy)
    for where in dict.fromkeys(each.where for each in results if each.statement):
        yield f"{where}: as an administrator of this database, run"
        yield from (each.statement for each in results if each.where == where and each.statement)
