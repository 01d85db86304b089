# SPDX-License-Identifier: Apache-2.0
"""Which cloud a command is for: that of the configuration, or the `roost dev` of this user."""

import pytest
from tests.cli.fake_conductor import FakeConductor

from roost.cli.main import main
from roost.client.interface import METHODS
from roost.client.rpc_client import open_client
from roost.errors import RpcUnreachable
from roost.messages.in_process import InProcessTransport
from roost.messages.loopback import SOCKET_NAME, LoopbackServer
from roost.scheduler.all_options import read_options


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    """The state directory of `roost dev`."""
    home = tmp_path_factory.mktemp("s")
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    for name in ("OS_CLOUD", "OS_AUTH_URL", "OS_ENDPOINT", "OS_CLIENT_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    folder = home / "roost" / "dev"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def dev_cloud(state):
    """A `roost dev` that runs, with a conductor in memory."""
    transport, conductor = InProcessTransport(in_callers_thread=True), FakeConductor()
    transport.serve("conductor", "one", [conductor.endpoint()]).start()
    server = LoopbackServer(state / SOCKET_NAME, transport, {"conductor": METHODS})
    server.start()
    yield conductor
    server.stop()
    transport.close()


def test_a_running_dev_cloud_is_found_without_any_configuration(dev_cloud, capsys):
    dev_cloud.add("web")
    assert main(["server", "list", "-f", "value", "-c", "name"]) == 0
    assert capsys.readouterr().out == "web\n"
    context = dev_cloud.contexts[0]
    assert (context.is_admin, context.user_id, context.project_id) == (True, "admin", "admin")
    assert context.request_id.startswith("req-")


def test_without_any_cloud_the_remedy_is_named(capsys):
    assert main(["server", "list"]) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "no roost dev is running" in printed.err
    assert "start one: roost dev" in printed.err


def test_a_configuration_wins_over_a_running_dev_cloud(dev_cloud, tmp_path, capsys):
    file = tmp_path / "roost.conf"
    file.write_text("[DEFAULT]\ntransport_url = in-process://\n")
    assert main(["server", "list", "--config-file", str(file)]) == 4
    printed = capsys.readouterr()
    assert "no conductor can be reached" in printed.err
    assert dev_cloud.calls == []


def test_a_transport_url_of_the_environment_wins_too(dev_cloud, monkeypatch):
    monkeypatch.setenv("OS_DEFAULT__TRANSPORT_URL", "in-process://")
    settings = read_options()
    with pytest.raises(RpcUnreachable, match="no conductor can be reached"):
        open_client(settings, []).list_hosts()
    assert dev_cloud.calls == []


def test_a_wrong_transport_url_is_one_line(tmp_path, capsys):
    file = tmp_path / "roost.conf"
    file.write_text("[DEFAULT]\ntransport_url = telnet://me:secret@broker\n")
    assert main(["host", "list", "--config-file", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert "transport_url" in printed.err
    assert "secret" not in printed.err


@pytest.fixture
def clouds(tmp_path, monkeypatch):
    """A clouds.yaml with the cloud `away`, whose API does not answer."""
    file = tmp_path / "clouds.yaml"
    file.write_text("clouds: {away: {auth: {auth_url: 'http://127.0.0.1:1/v3', username: a, password: b}}}")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))
    return file


@pytest.mark.parametrize("more", [(), ("--config-file", "nova.conf")])
def test_a_named_cloud_wins_over_a_configuration_and_a_running_dev_cloud(dev_cloud, clouds, tmp_path, capsys, more):
    file = tmp_path / "nova.conf"
    file.write_text("[DEFAULT]\ntransport_url = in-process://\n")
    arguments = [str(file) if each == file.name else each for each in more]
    assert main(["server", "list", "--os-cloud", "away", *arguments]) == 4
    assert "127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    assert dev_cloud.calls == []


def test_os_cloud_wins_over_a_running_dev_cloud_but_not_over_an_argument(
    dev_cloud, clouds, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("OS_CLOUD", "away")
    assert main(["server", "list"]) == 4
    assert "127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    file = tmp_path / "roost.conf"
    file.write_text("[DEFAULT]\ntransport_url = in-process://\n")
    assert main(["server", "list", "--config-file", str(file)]) == 4
    assert "no conductor can be reached" in capsys.readouterr().err


def test_what_only_an_api_can_do_is_refused_where_none_is_known(dev_cloud, monkeypatch, capsys):
    assert main(["aggregate", "list"]) == 2
    assert "add --os-cloud NAME" in capsys.readouterr().err
    monkeypatch.setenv("OS_DEFAULT__TRANSPORT_URL", "in-process://")
    assert main(["aggregate", "list"]) == 2


def test_without_any_cloud_an_api_is_not_known_either(capsys):
    assert main(["aggregate", "list"]) == 4
    assert "start one: roost dev" in capsys.readouterr().err
