# SPDX-License-Identifier: Apache-2.0
"""rabbit_host and its kin, as nova had them before transport_url."""

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.messages.options import RpcOptions
from roost.options.files import broker_address
from roost.options.read import read_settings


def address(section="DEFAULT", **parts):
    return broker_address([{section: {name: [value] for name, value in parts.items()}}])


def test_where_no_part_is_written_there_is_no_address():
    assert broker_address([]) == ""
    assert address(rpc_backend="rabbit") == ""


@pytest.mark.parametrize("section", ["DEFAULT", "oslo_messaging_rabbit"])
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"rabbit_host": "h"}, "rabbit://guest:guest@h:5672/"),
        ({"rabbit_password": "pw"}, "rabbit://guest:pw@localhost:5672/"),
        ({"rabbit_host": "h", "rabbit_port": "5673", "rabbit_userid": "u"}, "rabbit://u:guest@h:5673/"),
        ({"rabbit_hosts": "a:1, b"}, "rabbit://guest:guest@a:1,guest:guest@b:5672/"),
        ({"rabbit_host": "::1"}, "rabbit://guest:guest@[::1]:5672/"),
        ({"rabbit_hosts": "[::1]:7"}, "rabbit://guest:guest@[::1]:7/"),
        ({"rabbit_host": "h", "rabbit_virtual_host": "/nova"}, "rabbit://guest:guest@h:5672/nova"),
        ({"rabbit_host": "h", "rabbit_password": "p@s/s:"}, "rabbit://guest:p%40s%2Fs%3A@h:5672/"),
    ],
)
def test_an_address_is_made_of_its_parts(section, parts, expected):
    assert address(section, **parts) == expected


def test_the_newer_section_wins_and_then_the_later_file():
    old, new = {"DEFAULT": {"rabbit_host": ["a"]}}, {"oslo_messaging_rabbit": {"rabbit_host": ["b"]}}
    assert broker_address([old | new]) == "rabbit://guest:guest@b:5672/"
    assert broker_address([new, old]) == "rabbit://guest:guest@a:5672/"


@pytest.fixture
def read(tmp_path):
    def reading(text, **more):
        (tmp_path / "nova.conf").write_text(text)
        return read_settings([RpcOptions], [tmp_path / "nova.conf"], **more)

    return reading


def test_the_parts_count_where_no_address_is_written(read, tmp_path):
    settings = read("[DEFAULT]\nmy_ip = 10.0.0.1\nrabbit_host = $my_ip\nrabbit_password = pw\n")
    assert settings.fill(RpcOptions).transport_url == "rabbit://guest:pw@10.0.0.1:5672/"
    assert settings.origin("DEFAULT", "transport_url") == str(tmp_path / "nova.conf")
    assert [entry.value for entry in settings.report.renamed] == ["$my_ip", "***"]


def test_an_address_that_is_written_wins(read):
    settings = read("[DEFAULT]\ntransport_url = rabbit://h/\nrabbit_host = other\n")
    assert settings.fill(RpcOptions).transport_url == "rabbit://h/"
    assert [entry.why for entry in settings.report.renamed] == ["[DEFAULT] transport_url counts"]


@given(st.text(st.characters(codec="utf-8", exclude_characters="${}", exclude_categories=["C", "Z"]), min_size=1))
def test_any_password_survives(password):
    made = address(rabbit_password=password)
    assert unquote(urlsplit(made).password) == password
