# SPDX-License-Identifier: Apache-2.0
"""Files and commands of private servers. That they work is shown wherever tests use them."""

import os
import stat

import pytest

from roost.errors import BadInput
from roost.trial import private_servers
from roost.trial.private_servers import PostgresqlServer, RabbitmqServer, as_user


def test_a_server_that_is_missing_is_named_with_its_package(monkeypatch, tmp_path):
    monkeypatch.setattr(private_servers, "DEBIAN_POSTGRESQL", tmp_path)
    monkeypatch.setattr(private_servers, "RABBITMQ_PROGRAM", tmp_path / "rabbitmq-server")
    monkeypatch.setattr(private_servers.shutil, "which", lambda program, path: None)
    with pytest.raises(BadInput, match=r"initdb is not installed \(Debian has it in the package postgresql\)"):
        PostgresqlServer(tmp_path, 1)
    with pytest.raises(BadInput, match=r"rabbitmq-server is not installed \(Debian has it in the package rabbitmq-"):
        RabbitmqServer(tmp_path, 1, 2, 3)


def test_a_password_is_in_the_address_and_in_a_file_but_in_no_command(tmp_path):
    server = PostgresqlServer(tmp_path, 5, password="hidden")
    assert server.address("roost") == "postgresql://postgres:hidden@127.0.0.1:5/roost"
    words = [*server.initialise(), *server.command()]
    assert "hidden" not in " ".join(words)
    assert stat.S_IMODE((tmp_path / "password").stat().st_mode) == 0o600


def test_everything_of_the_broker_is_on_loopback(tmp_path):
    server = RabbitmqServer(tmp_path, 5, 6, 7, password="hidden")
    server.write_files("cookie")
    assert "listeners.tcp.default = 127.0.0.1:5\n" in (tmp_path / "rabbitmq.conf").read_text()
    assert "default_pass = hidden\n" in (tmp_path / "rabbitmq.conf").read_text()
    words = server.command()
    assert {"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "ERL_EPMD_ADDRESS=127.0.0.1"} <= set(words)
    assert "hidden" not in " ".join(words)


def test_only_root_changes_the_user(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert as_user("postgres", tmp_path, ["true"]) == ["true"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert as_user("postgres", tmp_path, ["true"], "SIGINT") == [
        *("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig", "SIGINT"),
        *("env", "-C", str(tmp_path), "true"),
    ]
