# SPDX-License-Identifier: Apache-2.0
import socket

import pytest

from roost.api.http_server import bind
from roost.errors import OptionError


def test_what_is_sent_to_a_client_does_not_wait_for_its_acknowledgements():
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_taken_is_reported_with_its_option():
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        with pytest.raises(OptionError, match=r"osapi_compute_listen_port: 127\.0\.0\.1:\d+"):
            bind("127.0.0.1", listener.getsockname()[1])


def test_an_address_that_does_not_exist_is_reported_with_its_option():
    with pytest.raises(OptionError, match=r"osapi_compute_listen: 'no such name'"):
        bind("no such name", 0)
