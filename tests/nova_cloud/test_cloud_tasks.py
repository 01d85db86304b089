# SPDX-License-Identifier: Apache-2.0
"""Which writes to nova's databases a scheduler makes: none, unless an option says so."""

import random

import pytest

from roost.clock import SystemClock
from roost.errors import DatabaseAddressError
from roost.nova import backend
from roost.nova.backend import NovaCloud
from roost.scheduler.all_options import read_options
from roost.services.metrics import Metrics

PLACEMENT = {"read placement's providers": 5, "release claims without an answer": 15}
"""Tasks that concern placement only."""


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """Task name -> seconds between two runs, for these lines in nova.conf; `opened`: users that could write."""
    opened = []
    usual = backend.open_for_writing
    monkeypatch.setattr(backend, "open_for_writing", lambda url: opened.append(url) or usual(url))

    def make(lines, database="connection = mysql+pymysql://nova@127.0.0.1:1/nova_cell1"):
        file = tmp_path / "nova.conf"
        file.write_text(
            f"[roost]\ncloud = nova\n{lines}\n[database]\n{database}\n"
            "[api_database]\nconnection = mysql+pymysql://nova@127.0.0.1:1/nova_api\n"
            "[placement]\nauth_type = none\nendpoint = http://127.0.0.1:1\n"
        )
        made = NovaCloud(
            read_options([file]), [file], clock=SystemClock(), randomness=random.Random(1), metrics=Metrics()
        )
        made.close()
        return {task.name: task.seconds() for task in made.tasks()}, [url.database for url in opened]

    return make


def test_without_an_option_nothing_can_write(tasks):
    assert tasks("") == (PLACEMENT, [])
    assert tasks("[scheduler]\ndiscover_hosts_in_cells_interval = 0") == (PLACEMENT, [])


def test_the_service_record_is_written_as_often_as_nova_does(tasks):
    assert tasks("service_record = true") == ({**PLACEMENT, "service record": 10}, ["nova_cell1"])


def test_hosts_are_discovered_at_novas_interval(tasks):
    found = tasks("[scheduler]\ndiscover_hosts_in_cells_interval = 300")
    assert found == ({**PLACEMENT, "host discovery": 300}, ["nova_api"])


def test_a_service_record_needs_the_address_of_its_database(tasks):
    with pytest.raises(DatabaseAddressError, match=r"\[database\] connection is not set"):
        tasks("service_record = true", database="")
