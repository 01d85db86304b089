# SPDX-License-Identifier: Apache-2.0
"""The service catalog: where clients find each API of this server."""

from __future__ import annotations

from typing import Any

REGION = "RegionOne"
_SERVICES = (
    ("compute", "nova", "/v2.1"),
    ("identity", "keystone", "/identity/v3"),
    ("image", "glance", "/image"),
    ("roost", "roost", "/roost/v1"),
)
"""Type, name and path of each service."""


def describe_catalog(base_url: str) -> list[dict[str, Any]]:
    """The catalog as it is in tokens; each service has one address, which is public, internal and for admins."""
    return [
        {"id": kind, "type": kind, "name": name, "endpoints": _endpoints(kind, f"{base_url}{path}")}
        for kind, name, path in _SERVICES
    ]


def _endpoints(kind: str, address: str) -> list[dict[str, str]]:
    return [
        {"id": f"{kind}-{interface}", "interface": interface, "region": REGION, "region_id": REGION, "url": address}
        for interface in ("public", "internal", "admin")
    ]
