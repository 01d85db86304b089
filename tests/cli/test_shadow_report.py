# SPDX-License-Identifier: Apache-2.0
"""`roost shadow report` on a file of records."""

import pytest

from roost.nova.shadow.comparison import ShadowRecord

TIME = "2026-11-18T12:00:00.000Z"


def record(number, verdict, **more):
    return ShadowRecord(TIME, f"req-{number}", f"instance-{number}", 1, "notification", verdict, **more)


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "shadow.jsonl"
    records = [
        record(1, "same", roost_host="h1", nova_host="h1", roost_us=300.0, refresh_us=4000.0, nova_us=150_000.0),
        record(2, "equal_weight", roost_host="h1", nova_host="h2", roost_us=500.0, nova_us=250_000.0),
        record(3, "other", why="Roost weighs nova's host 1, and its own 2", roost_host="h1", nova_host="h3"),
        record(4, "move"),
    ]
    found.write_text("".join(f"{each.to_line()}\n" for each in records))
    return found


def test_the_summary_and_the_disagreements(roost, file):
    done = roost("shadow", "report", str(file))
    assert (done.code, done.err) == (0, "")
    assert "requests: 1 same, 1 equal_weight, 1 other, 1 move" in done.out
    assert "agreed: 2 of 3 that were compared (66.7 %)" in done.out
    assert "Roost: median 0.3 ms, p99 0.5 ms; refresh before it: median 4.0 ms, p99 4.0 ms" in done.out
    assert "nova: median 150.0 ms, p99 250.0 ms" in done.out
    assert "Roost weighs nova's host 1, and its own 2" in done.out
    assert "instance-1" not in done.out


def test_long_lists_every_request(roost, file):
    done = roost("shadow", "report", "--long", str(file))
    assert all(f"instance-{number}" in done.out for number in range(1, 5))


def test_as_json(roost, file):
    found = roost("shadow", "report", str(file), "-f", "json").record
    assert (found["compared"], found["agreed"], round(found["agreed_per_cent"], 1)) == (3, 2, 66.7)
    assert found["counts"]["both_no_host"] == 0
    assert found["nova"] == {"count": 2, "median_us": 150_000.0, "p99_us": 250_000.0}
    assert [each["request_id"] for each in found["requests"]] == ["req-3"]


def test_lines_that_cannot_be_read_are_skipped_and_counted(roost, file):
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], '{"time": "20', lines[2][:50] + lines[3], *lines[2:]]))
    done = roost("shadow", "report", str(file))
    assert (done.code, done.err) == (0, "")
    assert "requests: 1 same, 1 equal_weight, 1 other, 1 move" in done.out
    assert f"skipped: 2 lines that cannot be read; the first: {file}, line 3: this is no line of JSON" in done.out
    assert roost("shadow", "report", str(file), "-f", "json").record["skipped"] == 2


def test_an_empty_file(roost, tmp_path):
    (tmp_path / "empty").touch()
    done = roost("shadow", "report", str(tmp_path / "empty"))
    assert (done.code, done.err) == (0, "")
    assert "requests: none" in done.out
    assert "Roost: no times" in done.out


def test_what_is_wrong_is_one_line(roost, file, tmp_path):
    done = roost("shadow", "report", str(tmp_path / "missing"))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "missing cannot be read: No such file or directory" in done.err
    file.write_text("no JSON")
    done = roost("shadow", "report", str(file))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "line 1: this is no line of JSON" in done.err
    done = roost("shadow", "report", str(tmp_path))
    assert (done.code, "Is a directory" in done.err) == (2, True)
    done = roost("shadow", "report")
    assert done.code == 2
