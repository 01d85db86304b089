# SPDX-License-Identifier: Apache-2.0
"""`roost cloud ...`, `roost shadow ...`: try what a scheduler needs in a nova cloud, sum up shadow mode's records."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roost.cli.arguments import add_config_arguments, config_files
from roost.cli.output import Report, ReportCommand, titled
from roost.clock import SystemClock
from roost.errors import BadInput
from roost.nova.shadow.comparison import ShadowRecord, Summary, Times, read_records, summarise
from roost.scheduler.all_options import read_options
from roost.scheduler.options import NOVA, CloudOptions

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


SHADOW_COLUMNS = {
    "Time": "time",
    "Request": "request_id",
    "Instance": "instance",
    "Verdict": "verdict",
    "Roost": "roost_host",
    "Nova": "nova_host",
    "Roost ms": "roost_ms",
    "Nova ms": "nova_ms",
    "Why": "why",
}


class ShadowReport(ReportCommand):
    """Sum up a file that shadow mode wrote: how often both schedulers agreed, where not and why, and their times."""

    columns = SHADOW_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the file, and --long."""
        parser.add_argument("file", type=Path, metavar="FILE", help="the file that [roost] shadow_report named")
        parser.add_argument("--long", action="store_true", help="list every request, not only the disagreements")

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The summary, and the requests that it lists; exit code 0."""
        wrong: list[BadInput] = []
        records = list(read_records(parsed_args.file, wrong.append))
        if wrong and not records:
            raise wrong[0]  # this is another kind of file
        summary = summarise(records)
        listed = records if parsed_args.long else summary.disagreements
        rows = [_row(each) for each in listed]
        record = _summary_record(summary) | {"skipped": len(wrong)}
        record["requests"] = [dataclasses.asdict(each) for each in listed]
        caption = _caption(summary) + _skipped_text(wrong)
        return Report(record, tuple(SHADOW_COLUMNS), rows, caption=caption, minor=frozenset({"Request"})), 0


def _row(record: ShadowRecord) -> tuple[Any, ...]:
    return (
        record.time,
        record.request_id,
        record.instance or "",
        record.verdict,
        record.roost_host or "",
        record.nova_host or "",
        _milliseconds(record.roost_us),
        _milliseconds(record.nova_us),
        record.why,
    )


def _milliseconds(microseconds: float | None) -> str:
    return "" if microseconds is None else f"{microseconds / 1000:.1f}"


def _caption(summary: Summary) -> str:
    """Counts, agreement and times, a line each."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in summary.counts.items() if count) or "none"
    share = "" if summary.agreed_per_cent is None else f" ({summary.agreed_per_cent:.1f} %)"
    return "\n".join(
        (
            f"requests: {counts}",
            f"agreed: {summary.agreed} of {summary.compared} that were compared{share}",
            f"Roost: {_times_text(summary.roost)}; refresh before it: {_times_text(summary.refresh)}",
            f"nova: {_times_text(summary.nova)}",
        )
    )


def _skipped_text(wrong: Sequence[BadInput]) -> str:
    """A further line for lines that are no records; empty where there are none."""
    if not wrong:
        return ""
    lines = "1 line that cannot be read" if len(wrong) == 1 else f"{len(wrong)} lines that cannot be read; the first"
    return f"\nskipped: {lines}: {wrong[0].message}"


def _times_text(times: Times) -> str:
    if not times.count:
        return "no times"
    return f"median {_milliseconds(times.median_us)} ms, p99 {_milliseconds(times.p99_us)} ms"


def _summary_record(summary: Summary) -> dict[str, Any]:
    return {
        "counts": summary.counts,
        "compared": summary.compared,
        "agreed": summary.agreed,
        "agreed_per_cent": summary.agreed_per_cent,
        "roost": dataclasses.asdict(summary.roost),
        "refresh": dataclasses.asdict(summary.refresh),
        "nova": dataclasses.asdict(summary.nova),
    }
