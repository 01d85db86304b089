# SPDX-License-Identifier: Apache-2.0
"""What a worker tells its parent: why it is not ready, as long as it lives."""

from types import SimpleNamespace

from roost.cli.service import ReportingService


def worker_of(is_alive):
    """A worker around a service of which only this matters."""
    others = dict.fromkeys(("start", "reload", "stop", "seconds_to_end"))
    service = SimpleNamespace(**others, unready=lambda: ["the broker is away"], is_alive=lambda: is_alive)
    return ReportingService(service)


def test_it_says_why_it_is_not_ready(capsys):
    worker_of(is_alive=True).look_after()
    assert capsys.readouterr().out == '["the broker is away"]\n'


def test_one_that_hangs_says_nothing(capsys):
    worker_of(is_alive=False).look_after()
    assert capsys.readouterr().out == ""
