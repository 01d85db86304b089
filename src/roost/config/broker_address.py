# SPDX-License-Identifier: Apache-2.0
"""Derives `transport_url` from the options that nova used before it: rabbit_host, rabbit_password, ...

They were in [DEFAULT], later in [oslo_messaging_rabbit]. oslo.messaging no longer reads them. The derived address
applies only where transport_url is not set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from roost.config.files import Key, Sections

ADDRESS: Key = ("DEFAULT", "transport_url")

_SECTIONS = ("oslo_messaging_rabbit", "DEFAULT")
"""Sections that may hold the parts, newest first."""
_DEFAULTS = {
    "rabbit_host": "localhost",
    "rabbit_hosts": "",
    "rabbit_port": "5672",
    "rabbit_userid": "guest",
    "rabbit_password": "guest",
    "rabbit_virtual_host": "/",
}
ADDRESS_PARTS = frozenset((section, name) for section in _SECTIONS for name in _DEFAULTS)
"""(section, name) of all options from which the address is derived."""


def broker_address(files: Sequence[Sections]) -> str:
    """The address derived from the parts in these files, of which later ones win; empty where there are none."""
    parts = {name: found for name in _DEFAULTS if (found := _last_value(files, name))}
    if not parts:
        return ""
    filled = _DEFAULTS | parts
    login = f"{_quoted(filled['rabbit_userid'])}:{_quoted(filled['rabbit_password'])}"
    brokers = _hosts_and_ports(filled["rabbit_hosts"] or filled["rabbit_host"], filled["rabbit_port"])
    path = filled["rabbit_virtual_host"].removeprefix("/")
    return f"rabbit://{','.join(f'{login}@{broker}' for broker in brokers)}/{_quoted(path)}"


def _last_value(files: Sequence[Sections], name: str) -> str:
    for file in reversed(files):
        for section in _SECTIONS:
            if lines := file.get(section, {}).get(name):
                return str(lines[-1]).strip()
    return ""


def _quoted(text: str) -> str:
    """Percent-encode a part of an address; references to options such as $my_ip and ${my_ip} stay."""
    return quote(text, safe="${}")


def _hosts_and_ports(hosts: str, port: str) -> Iterable[str]:
    """HOST:PORT of each host of a comma-separated list; IPv6 addresses in brackets. `port` is the default."""
    for host in (each.strip() for each in hosts.split(",")):
        bare = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
        has_port = ":" in bare.rpartition("]")[2]
        yield bare if has_port else f"{bare}:{port}"
