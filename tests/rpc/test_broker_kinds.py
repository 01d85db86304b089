# SPDX-License-Identifier: Apache-2.0
"""Brokers as people have them: queues that last, that are replicated, or that are streams; and TLS."""

import subprocess
import sys

import pytest
from tests.rpc.conftest import Methods

from roost.errors import OptionError, RoostError
from roost.messages.open_transport import open_transport
from roost.messages.options import RpcOptions
from roost.messages.oslo import take_process_number

QUEUES = {
    "durable": "amqp_durable_queues = true",
    "quorum": "rabbit_quorum_queue = true",
    "quorum for all": "rabbit_quorum_queue = true\nrabbit_transient_quorum_queue = true\nuse_queue_manager = true",
    "streams": "rabbit_quorum_queue = true\nrabbit_transient_quorum_queue = true\nuse_queue_manager = true\n"
    "rabbit_stream_fanout = true",
}


def config_of(folder, lines):
    return f"[oslo_messaging_rabbit]\n{lines}\n[oslo_concurrency]\nlock_path = {folder}\n"


@pytest.mark.parametrize("kind", QUEUES)
def test_calls_are_answered_and_every_server_gets_a_fanout_cast(connect, serve, topic, context, tmp_path, kind):
    config = config_of(tmp_path, QUEUES[kind])
    servers = [Methods(name=name) for name in ("host1", "host2")]
    for server in servers:
        serve(connect(config, control_exchange=f"nova_{topic}"), server, name=server.name)
    caller = connect(config, control_exchange=f"nova_{topic}")
    assert caller.call(topic, "echo", "4.5", {"value": [1, {"a": None}]}, context, 20) == [1, {"a": None}]
    caller.cast(topic, "note", "4.5", {"value": "to all"}, context, fanout=True)
    for server in servers:
        server.wait_until_seen("to all")


def test_an_encrypted_connection(broker, serve, topic, context, tmp_path):
    authority = tmp_path / "ca.pem"
    broker.authority.cert_pem.write_to_path(authority)
    file = tmp_path / "tls.conf"
    file.write_text(f"[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = {authority}\n")
    transport = open_transport(RpcOptions(transport_url=broker.tls_address()), [file])
    try:
        server = serve(transport, Methods())
        assert transport.call(topic, "echo", "4.5", {"value": "psst"}, context, 20) == "psst"
        server.stop()
    finally:
        transport.close()


def test_a_broker_with_an_unknown_certificate_is_sent_nothing(broker, topic, context, tmp_path, monkeypatch):
    file = tmp_path / "tls.conf"
    file.write_text("[oslo_messaging_rabbit]\nssl = true\n")
    transport = open_transport(RpcOptions(transport_url=broker.tls_address()), [file])
    monkeypatch.setattr(transport, "_delivery_seconds", 0.3)
    try:
        with pytest.raises(RoostError) as failed:
            transport.call(topic, "echo", "4.5", {"value": "psst"}, context, 5)
        assert "guest:guest" not in str(failed.value)
    finally:
        transport.close()


# --- queues that are named after their process ---------------------------------------------------------


def test_without_a_folder_for_locks_that_is_one_line(connect, monkeypatch):
    monkeypatch.delenv("OSLO_LOCK_PATH", raising=False)
    with pytest.raises(OptionError, match=r"use_queue_manager needs a folder.*\[oslo_concurrency\] lock_path"):
        connect("[oslo_messaging_rabbit]\nuse_queue_manager = true\n")


def test_a_folder_that_cannot_be_used_is_one_line(connect, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match=r"lock_path: .*/file/locks cannot be used: Not a directory"):
        connect(config_of(tmp_path / "file" / "locks", "use_queue_manager = true"))


HOLD = """
import sys
from pathlib import Path
from roost.messages.oslo import take_process_number
print(take_process_number(Path(sys.argv[1]), 'roost'))
input()
"""


def test_processes_of_one_name_have_numbers_of_their_own_and_find_them_again(tmp_path):
    def start():
        command = [sys.executable, "-u", "-c", HOLD, str(tmp_path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return process, int(process.stdout.readline())

    (first, one), (second, two) = start(), start()
    assert (one, two) == (1, 2)
    assert take_process_number(tmp_path, "roost") == take_process_number(tmp_path, "roost") == 3
    first.kill()
    first.communicate()
    again, number = start()
    assert number == 1
    for process in (second, again):
        process.kill()
        process.communicate()
