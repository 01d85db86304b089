# SPDX-License-Identifier: Apache-2.0
"""Which transport the options ask for, and what loading it costs and says."""

import socket
import subprocess
import sys

import pytest

from roost.errors import OptionError, RpcUnreachable
from roost.messages.in_process import InProcessTransport
from roost.messages.open_transport import open_transport, try_connection
from roost.messages.options import RpcOptions
from roost.options.read import read_settings
from roost.trial.private_servers import free_port


def run(code):
    done = subprocess.run([sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_nothing_of_oslo_messaging_is_loaded_before_a_broker_is_needed():
    code = (
        "import sys, roost.messages.open_transport; print({'oslo_messaging', 'kombu', 'eventlet'} & set(sys.modules))"
    )
    assert run(code) == (0, "set()\n", "")


def test_a_broker_is_opened_with_threads_and_without_a_word():
    code = """
from roost.messages.options import RpcOptions
from roost.messages.open_transport import open_transport
open_transport(RpcOptions(transport_url='rabbit://nowhere/')).close()
from oslo_service import backend
from oslo_config import cfg
print(backend.get_backend_type().name, 'transport_url' in cfg.CONF)
"""
    assert run(code) == (0, "THREADING False\n", "")


def test_in_process_is_an_address():
    assert isinstance(open_transport(RpcOptions(transport_url="in-process://")), InProcessTransport)


@pytest.mark.parametrize(
    "address", ["", "rabbit", "fake://", "http://u:secret@h", "u:secret@h", "rabbit:/u:secret@h"]
)
def test_an_address_of_another_kind_is_refused_without_repeating_it(address):
    with pytest.raises(OptionError, match=r"\[DEFAULT\] transport_url") as raised:
        open_transport(RpcOptions(transport_url=address))
    assert "secret" not in str(raised.value)


def test_an_address_that_cannot_be_understood_is_refused_without_repeating_it():
    with pytest.raises(OptionError, match="transport_url") as raised:
        open_transport(RpcOptions(transport_url="rabbit://u:secret@h:port/"))
    assert "secret" not in str(raised.value)


def test_an_option_of_oslo_messaging_with_a_wrong_value_is_an_error_before_the_first_message(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[oslo_messaging_rabbit]\nrabbit_retry_interval = often\n")
    with pytest.raises(OptionError, match="rabbit_retry_interval"):
        open_transport(RpcOptions(), [file])


def test_options_have_novas_names(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[DEFAULT]\nrpc_thread_pool_size = 7\ncontrol_exchange = x\n[upgrade_levels]\nscheduler = pike\n")
    options = read_settings([RpcOptions], [file]).fill(RpcOptions)
    assert (options.executor_thread_pool_size, options.control_exchange) == (7, "x")
    assert options.scheduler_version == "pike"


def test_the_address_is_not_shown():
    assert "secret" not in repr(RpcOptions(transport_url="rabbit://u:secret@h"))


# --- a connection that is only tried -----------------------------------------------------------------


def queues_of(broker):
    """The names of all queues, which RabbitMQ lists in no particular order."""
    return sorted(broker.control("list_queues", "name").splitlines())


def test_a_broker_is_tried_without_a_queue_or_a_number(broker, tmp_path):
    file = tmp_path / "nova.conf"
    locks = f"[oslo_concurrency]\nlock_path = {tmp_path}/locks\n"
    file.write_text(f"[oslo_messaging_rabbit]\nuse_queue_manager = true\n{locks}")
    before = queues_of(broker)
    try_connection(RpcOptions(transport_url=broker.address()), [file])
    assert queues_of(broker) == before
    assert not (tmp_path / "locks").exists()


def test_nothing_is_tried_in_process():
    try_connection(RpcOptions(transport_url="in-process://"))


@pytest.mark.parametrize(
    ("password", "host", "said"),
    [("secret", "", "Login was refused"), ("guest", "nowhere", "vhost nowhere not found")],
)
def test_a_broker_that_refuses_says_why(broker, password, host, said):
    url = broker.address(host).replace("guest:guest", f"guest:{password}")
    with pytest.raises(RpcUnreachable, match=said) as raised:
        try_connection(RpcOptions(transport_url=url))
    assert "secret" not in str(raised.value)


def test_a_broker_that_is_down_is_not_waited_for():
    with pytest.raises(RpcUnreachable, match="Connection refused"):
        try_connection(RpcOptions(transport_url=f"rabbit://u:secret@127.0.0.1:{free_port()}/"))


def test_a_broker_that_says_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(RpcUnreachable, match="timed out"):
        try_connection(RpcOptions(transport_url=f"rabbit://u:secret@127.0.0.1:{silent.getsockname()[1]}/"))
