# SPDX-License-Identifier: Apache-2.0
"""`python -m conformance.run`, with a few lines in place of nova."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from conformance.gen_cases import gen_case, to_rocky

from conformance import asking, run

RECORDED = Path(__file__).parent


@pytest.fixture
def nova(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script that is asked; it runs in our own Python, and agrees with Roost until a test rewrites it."""
    script = tmp_path / "oracle.py"
    script.write_text("from roost.testing.vectors import main\nmain()\n")
    monkeypatch.setattr(asking, "ORACLE", script)
    monkeypatch.setattr(run, "BUILD", tmp_path)
    monkeypatch.setattr(run, "ensure_nova", lambda folder: Path(sys.executable))
    return script


def test_equal_answers_end_with_status_0(nova: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--seed", "x", "-n", "22"]) == 0
    shown = capsys.readouterr()
    assert "22 cases: 0 differ" in shown.out
    assert "JsonFilter" in shown.out
    assert shown.err == ""
    assert (nova.parent / "conformance-x.jsonl").read_text() == ""


def test_a_difference_is_shown_saved_and_can_be_replayed(nova: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nova.write_text(
        "import json, sys\n"
        "from roost.testing.vectors import answer\n"
        "for line in sys.stdin:\n"
        "    said = answer(json.loads(line))\n"
        "    if said['id'] == 'x-00001':\n"
        "        said['alone']['ComputeFilter'] = []\n"
        "    print(json.dumps(said), flush=True)\n"
    )
    assert run.main(["--seed", "x", "-n", "3"]) == 1
    assert "x-00001 alone.ComputeFilter (unexplained): nova no host more; Roost host0" in capsys.readouterr().out
    saved = nova.parent / "conformance-x.jsonl"
    assert [json.loads(line)["case"]["id"] for line in saved.read_text().splitlines()] == ["x-00001"]
    assert run.main(["--replay", str(saved)]) == 1
    assert "1 cases: 1 differ" in capsys.readouterr().out


def test_nova_that_fails_ends_with_status_2_and_its_last_words(
    nova: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nova.write_text("raise SystemExit('no such nova')\n")
    assert run.main(["-n", "5"]) == 2
    assert "no such nova" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nova34", "rocky"])
def test_the_generator_still_makes_the_recorded_cases(name: str) -> None:
    with gzip.open(RECORDED / f"{name}.jsonl.gz", "rt") as lines:
        recorded = [json.loads(line)["case"] for line in list(lines)[::37]]
    for case in recorded:
        seed, number = case["id"].split("-")
        made = gen_case(int(number), seed, 12)
        assert (to_rocky(made, int(number), seed) if name == "rocky" else made) == case
