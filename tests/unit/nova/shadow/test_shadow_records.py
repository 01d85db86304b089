# SPDX-License-Identifier: Apache-2.0
"""The records of shadow mode: a file of JSON lines whose keys are a promise, and what a summary makes of it."""

import dataclasses
import json
from io import FileIO

import pytest

from roost.errors import BadInput, OptionError
from roost.nova.shadow import comparison
from roost.nova.shadow.comparison import VERDICTS, Journal, ShadowRecord, read_records, summarise
from roost.services.metric_definitions import SHADOW_VERDICTS
from roost.services.metrics import Metrics

KEYS = [
    *("time", "request_id", "instance", "instances", "source", "verdict", "why", "roost_host", "roost_weight"),
    *("ties", "tied", "nova_host", "nova_weight", "nova_rejected", "roost_us", "refresh_us", "nova_us"),
]


def record(verdict="same", **more):
    fields = {"instance": "i1", "instances": 1, "source": "notification"} | more
    return ShadowRecord("2026-11-18T12:00:00.000Z", "req-1", verdict=verdict, **fields)


class Said(list):
    """Stands in for the logger of a module."""

    def info(self, event, **facts):
        self.append((event, facts))

    warning = info


@pytest.fixture
def said(monkeypatch):
    found = Said()
    monkeypatch.setattr(comparison, "LOG", found)
    return found


def test_the_keys_are_a_promise():
    assert list(json.loads(record().to_line())) == KEYS


def test_the_verdicts_are_those_of_the_metric():
    assert VERDICTS == SHADOW_VERDICTS


def test_a_journal_writes_what_is_read_again(tmp_path, said):
    file, metrics = tmp_path / "shadow.jsonl", Metrics()
    written = [
        record("other", why="x", ties=("a", "b"), tied=2, roost_us=1.5, nova_us=2e5),
        record("move", instance=None),
    ]
    for each in written:
        opened = Journal(str(file), metrics)  # adds to a file that is there
        opened.note(each)
        opened.close()
    assert list(read_records(file)) == written
    shown = metrics.render().decode()
    assert 'roost_shadow_requests_total{verdict="other"} 1.0' in shown
    assert 'roost_shadow_duration_seconds_count{scheduler="nova"} 1.0' in shown
    times = {"roost_us": 2, "nova_us": 200_000}
    assert said == [
        ("shadow", {"verdict": "other", "why": "x", "instance": "i1", "source": "notification"} | times),
        ("shadow", {"verdict": "move", "source": "notification"}),
    ]


def test_without_a_file_nothing_is_written(tmp_path):
    Journal("", Metrics()).note(record())
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_a_wrong_option(tmp_path):
    with pytest.raises(
        OptionError, match=r"\[roost\] shadow_report: .* cannot be written: No such file or directory"
    ):
        Journal(str(tmp_path / "missing" / "file"), Metrics())


def test_a_full_disk_is_logged_once(said):
    full = Journal("/dev/full", Metrics())
    full.note(record())
    full.note(record())
    full.close()
    assert [event for event, _ in said] == ["shadow", "the report of shadow mode cannot be written", "shadow"]


class FullFile(FileIO):
    """A file on a disk that has room for so many bytes."""

    room = 0

    def write(self, data):
        written = super().write(data[: self.room])
        self.room -= written
        return written


def test_a_line_that_was_cut_off_does_not_spoil_the_next(tmp_path, said):
    file = tmp_path / "shadow.jsonl"
    opened = Journal("", Metrics())
    opened._file = full = FullFile(str(file), "a")
    full.room = 30
    opened.note(record())
    full.room = 10_000
    opened.note(record("other"))
    opened.close()
    assert [event for event, _ in said][1::2] == [
        *("the report of shadow mode cannot be written", "the report of shadow mode is written again"),
    ]
    skipped = []
    assert [each.verdict for each in read_records(file, skipped.append)] == ["other"]
    assert [str(each).partition(", ")[2][:6] for each in skipped] == ["line 1"]


def test_a_line_that_was_cut_off_by_a_crash_does_not_spoil_the_next(tmp_path):
    file = tmp_path / "shadow.jsonl"
    file.write_text('{"time": "2026')
    opened = Journal(str(file), Metrics())
    opened.note(record())
    opened.close()
    assert list(read_records(file, lambda _: None)) == [record()]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: this is no line of JSON"),
        ("[]", "line 2: this is no JSON object"),
        ("{}", "line 2: time is missing"),
        (record().to_line().replace('"same"', '"equal"'), "line 2: verdict 'equal' is none of same, "),
        (record().to_line().replace('"instances": 1', '"instances": "1"'), 'line 2: instances is "1"'),
        (record().to_line().replace('"instances": 1', '"instances": true'), "line 2: instances is true"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, said):
    file = tmp_path / "shadow.jsonl"
    file.write_text(f"{record().to_line()}\n{line}\n")
    with pytest.raises(BadInput, match=said.replace("[", r"\[")):
        list(read_records(file))


def test_further_keys_and_empty_lines_are_ignored(tmp_path):
    file = tmp_path / "shadow.jsonl"
    file.write_text("\n" + json.dumps(dataclasses.asdict(record()) | {"colour": "red"}) + "\n")
    assert list(read_records(file)) == [record()]


def test_a_summary_counts_what_was_compared():
    verdicts = (
        ["same"] * 5 + ["equal_weight"] * 2 + ["other", "both_no_host", "nova_failed", "move", "unknown", "decided"]
    )
    found = summarise([record(each, roost_us=float(at), nova_us=None) for at, each in enumerate(verdicts, 1)])
    assert (found.compared, found.agreed, found.agreed_per_cent) == (10, 8, 80.0)
    assert [each.verdict for each in found.disagreements] == ["other", "nova_failed"]
    assert (found.roost.median_us, found.roost.p99_us, found.nova.median_us) == (7.0, 13.0, None)
    assert (found.counts["same"], found.counts["roost_no_host"]) == (5, 0)


def test_a_summary_of_nothing():
    found = summarise([])
    assert (found.compared, found.agreed_per_cent, found.roost.count) == (0, None, 0)
