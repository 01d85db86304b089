# SPDX-License-Identifier: Apache-2.0
"""The broker's address as nova wrote it before `transport_url`: rabbit_host, rabbit_userid, rabbit_password ...

They stood in [DEFAULT], later in [oslo_messaging_rabbit]. oslo.messaging no longer knows them, so an address is made
of them. It counts where no transport_url is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from roost.config.files import Key, Sections

ADDRESS: Key = ("DEFAULT", "transport_url")

_SECTIONS = ("oslo_messaging_rabbit", "DEFAULT")
"""The newer one first."""
_DEFAULTS = {
    "rabbit_host": "localhost",
    "rabbit_hosts": "",
    "rabbit_port": "5672",
    "rabbit_userid": "guest",
    "rabbit_password": "guest",
    "rabbit_virtual_host": "/",
}
PARTS = frozenset((section, name) for section in _SECTIONS for name in _DEFAULTS)
"""Every spelling of every part."""


def broker_address(files: Sequence[Sections]) -> str:
    """The address that the parts in these files make up; empty where there are none. Later files win."""
    parts = {name: found for name in _DEFAULTS if (found := _last(files, name))}
    if not parts:
        return ""
    filled = _DEFAULTS | parts
    login = f"{_quoted(filled['rabbit_userid'])}:{_quoted(filled['rabbit_password'])}"
    places = _brokers(filled["rabbit_hosts"] or filled["rabbit_host"], filled["rabbit_port"])
    path = filled["rabbit_virtual_host"].removeprefix("/")
    return f"rabbit://{','.join(f'{login}@{place}' for place in places)}/{_quoted(path)}"


def _last(files: Sequence[Sections], name: str) -> str:
    for file in reversed(files):
        for section in _SECTIONS:
            if lines := file.get(section, {}).get(name):
                return str(lines[-1]).strip()
    return ""


def _quoted(text: str) -> str:
    """As it may stand in an address; $my_ip and ${my_ip} still refer to other options."""
    return quote(text, safe="${}")


def _brokers(hosts: str, port: str) -> Iterable[str]:
    """HOST:PORT of each; an address of IPv6 comes with brackets, or gets them."""
    for host in (each.strip() for each in hosts.split(",")):
        bare = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
        has_port = ":" in bare.rpartition("]")[2]
        yield bare if has_port else f"{bare}:{port}"
