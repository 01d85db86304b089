# SPDX-License-Identifier: Apache-2.0
"""All URLs: method, path, what answers, the rule of policy that it needs, and the microversions that have it.

A route without a rule is public. The first route that matches answers, so a fixed path precedes one with a parameter.
"""

from __future__ import annotations

from roost.api import versions
from roost.api.routing import Route

PUBLIC = (
    Route("GET", "/", versions.list_versions, None, key="versions"),
    Route("GET", "/v2.1", versions.show_version, None, key="version"),
    Route("GET", "/identity", versions.list_identity_versions, None, 300, key="versions"),
    Route("GET", "/identity/v3", versions.show_identity_version, None, key="version"),
    Route("GET", "/image", versions.list_image_versions, None, key="versions"),
)

SERVERS: tuple[Route, ...] = ()

FLAVORS: tuple[Route, ...] = ()

FLEET: tuple[Route, ...] = ()

IDENTITY: tuple[Route, ...] = ()

IMAGES: tuple[Route, ...] = ()

OWN: tuple[Route, ...] = ()

ROUTES = (*PUBLIC, *SERVERS, *FLAVORS, *FLEET, *IDENTITY, *IMAGES, *OWN)
