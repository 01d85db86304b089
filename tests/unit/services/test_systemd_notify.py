# SPDX-License-Identifier: Apache-2.0
"""What systemd is told, over real sockets."""

import itertools
import os
import socket

import pytest

from roost.services.lifecycle import notify, reloading, watchdog_seconds


@pytest.fixture
def systemd():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(5)
        yield listener


def test_the_state_arrives(systemd, tmp_path):
    systemd.bind(str(tmp_path / "notify"))
    assert notify("READY=1\nSTATUS=up", {"NOTIFY_SOCKET": str(tmp_path / "notify")})
    assert systemd.recv(1000) == b"READY=1\nSTATUS=up"


def test_sockets_without_a_file_are_reached_too(systemd):
    name = f"roost-test-{os.getpid()}"
    systemd.bind(f"\0{name}")
    assert notify("WATCHDOG=1", {"NOTIFY_SOCKET": f"@{name}"})
    assert systemd.recv(1000) == b"WATCHDOG=1"


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/socket", "@nobody-listens", "/" + "x" * 300, "/a\0b"])
def test_without_a_listener_nothing_happens(address):
    assert not notify("READY=1", {"NOTIFY_SOCKET": address} if address else {})


def test_a_listener_that_does_not_read_is_not_waited_for_long(systemd, tmp_path, monkeypatch):
    monkeypatch.setattr("roost.services.lifecycle.SEND_TIMEOUT_SECONDS", 0.05)
    systemd.bind(str(tmp_path / "notify"))
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    sent = list(itertools.takewhile(bool, (notify("WATCHDOG=1", environment) for _ in range(100_000))))
    assert 0 < len(sent) < 100_000


def test_the_environment_is_the_one_of_the_process(systemd, tmp_path, monkeypatch):
    systemd.bind(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    assert notify("STOPPING=1")
    assert systemd.recv(1000) == b"STOPPING=1"


def test_a_reload_says_when_it_began():
    first, second = reloading().splitlines()
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) > 0


def test_the_watchdog_is_asked_for_in_microseconds():
    assert watchdog_seconds({"WATCHDOG_USEC": "30000000"}) == 30.0
    assert watchdog_seconds({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}) == 30.0


@pytest.mark.parametrize("value", ["", "0", "-5", "soon", "1.5", "²", "9" * 30])
def test_no_watchdog_where_systemd_expects_no_heartbeat(value):
    assert watchdog_seconds({"WATCHDOG_USEC": value}) is None


def test_the_watchdog_of_another_process_is_not_ours():
    assert watchdog_seconds({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}) is None
