# SPDX-License-Identifier: Apache-2.0
"""Options of the API: where it listens, who may call it, and its limits. Nova's names, where nova has the option."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from roost.errors import OptionError
from roost.options.declare import option

BINARY = "nova-osapi_compute"
"""Name of the service in its database record and in logs, as operators know it."""
OWN_USERS, KEYSTONE, NO_AUTH = "roost", "keystone", "noauth2"


def _fixed(default: Any, group: str, text: str, **more: Any) -> Any:
    """An option of the process: it needs a restart, and no fleet file may set it."""
    return option(default, group=group, help=text, reloads=False, in_fleet=False, **more)


@dataclass(frozen=True)
class ApiOptions:
    """Options of the API."""

    osapi_compute_listen: str = _fixed("127.0.0.1", "DEFAULT", "address on which the API listens")
    osapi_compute_listen_port: int = _fixed(8774, "DEFAULT", "port of the API; 0: any free one", min=0, max=65535)
    osapi_compute_workers: int = _fixed(1, "DEFAULT", "processes that answer on the same port", min=1, max=256)
    auth_strategy: str = _fixed(
        OWN_USERS,
        "api",
        "who says who calls: roost, its own users; keystone, a Keystone that [keystone_authtoken] names; noauth2, "
        "everybody is an administrator, only on a loopback address",
        choices=(OWN_USERS, KEYSTONE, NO_AUTH),
        old=("auth_strategy",),
    )
    max_limit: int = _fixed(
        1000, "api", "most entries of one page of a list", min=1, max=10_000, old=("osapi_max_limit",)
    )
    compute_link_prefix: str | None = _fixed(
        None, "api", "start of links in answers, where a proxy stands in front: https://cloud.example.org"
    )
    token_expiration: int = _fixed(3600, "roost", "seconds for which a sign-in is good", min=60, max=86_400 * 366)
    ssl_cert_file: str | None = _fixed(None, "wsgi", "certificate, PEM; with it the API speaks TLS alone")
    ssl_key_file: str | None = _fixed(None, "wsgi", "key of the certificate, PEM")
    ssl_ca_file: str | None = _fixed(None, "wsgi", "authorities one of which must have signed a client's certificate")
    max_request_body_size: int = _fixed(
        114_688, "oslo_middleware", "most bytes of a body", min=1024, max=16 * 1024 * 1024
    )
    client_socket_timeout: int = _fixed(
        30, "wsgi", "seconds in which the head of a request must have arrived, and then its body", min=1, max=30
    )
    max_connections_per_client: int = _fixed(
        500,
        "roost",
        "connections of one address (of IPv6: one network of 64 bits) with a process of the API; 0: as many as of "
        "all addresses together (1000), for a proxy in front that has a bound of its own",
        min=0,
        max=1000,
    )

    def check(self) -> None:
        """Raise OptionError for values that contradict each other."""
        if self.auth_strategy == NO_AUTH and not is_loopback(self.osapi_compute_listen):
            raise OptionError(
                f"[api] auth_strategy: noauth2 makes everybody an administrator, and {self.osapi_compute_listen} "
                "can be reached from other machines",
                "set [DEFAULT] osapi_compute_listen = 127.0.0.1, or auth_strategy = roost",
            )
        if bool(self.ssl_cert_file) != bool(self.ssl_key_file):
            raise OptionError("[wsgi] ssl_cert_file, ssl_key_file: one without the other", "set both, or none")
        if self.ssl_ca_file and not self.ssl_cert_file:
            raise OptionError("[wsgi] ssl_ca_file: without ssl_cert_file there is no TLS", "set ssl_cert_file too")


def is_loopback(address: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
