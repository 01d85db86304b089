# SPDX-License-Identifier: Apache-2.0
"""The socket of the API: how it sends, and what is said where it cannot be opened."""

import socket

import pytest

from roost.api.options import ApiOptions
from roost.api.process import open_listener
from roost.errors import OptionError


def listen(address="127.0.0.1", port=0):
    return open_listener(ApiOptions(osapi_compute_listen=address, osapi_compute_listen_port=port))


def test_what_is_sent_to_a_client_does_not_wait_for_its_acknowledgements():
    with listen() as listener, socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_taken_is_reported_with_its_option():
    with listen() as listener, pytest.raises(OptionError, match=r"osapi_compute_listen_port: 127\.0\.0\.1:\d+"):
        listen(port=listener.getsockname()[1])


def test_an_address_that_does_not_exist_is_reported_with_its_option():
    with pytest.raises(OptionError, match=r"osapi_compute_listen: 'no such name'"):
        listen("no such name")


def test_an_address_of_another_machine_is_not_said_to_be_taken():
    with pytest.raises(OptionError, match="name an address of this machine"):
        listen("192.0.2.1", 8774)
