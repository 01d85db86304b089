# SPDX-License-Identifier: Apache-2.0
"""Version discovery: what clients read first, without a token."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from roost.api.call import answer, base_url_of
from roost.api.microversions import NEWEST, OLDEST

UPDATED = "2026-11-01T00:00:00Z"
_COMPUTE_MEDIA = {"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}

_IDENTITY_MEDIA = {"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}


def list_versions(request: Request) -> Response:
    """The versions of the compute API."""
    return answer({"versions": [_compute_version(base_of(request))]})


def show_version(request: Request) -> Response:
    """The version of the compute API, with the microversions that it has."""
    return answer({"version": _compute_version(base_of(request)) | {"media-types": [_COMPUTE_MEDIA]}})


def show_identity_version(request: Request) -> Response:
    """The version of the identity API."""
    return answer({"version": _identity_version(base_of(request))})


def list_identity_versions(request: Request) -> Response:
    """The versions of the identity API."""
    return answer({"versions": {"values": [_identity_version(base_of(request))]}}, 300)


def list_image_versions(request: Request) -> Response:
    """The versions of the image API, of which one is to be chosen."""
    return answer({"versions": _image_versions(request)}, 300)


def show_image_versions(request: Request) -> Response:
    """The versions of the image API, at the address of the newest."""
    return answer({"versions": _image_versions(request)})


def base_of(request: Request) -> str:
    """Scheme and host of links in an answer to this request."""
    return base_url_of(request, request.app.state.parts.options.compute_link_prefix)


def _compute_version(base: str) -> dict[str, Any]:
    own = _version("v2.1", f"{base}/v2.1/", "CURRENT")
    return own | {"version": str(NEWEST), "min_version": str(OLDEST)}


def _identity_version(base: str) -> dict[str, Any]:
    return _version("v3.14", f"{base}/identity/v3/", "stable") | {"media-types": [_IDENTITY_MEDIA]}


def _image_versions(request: Request) -> list[dict[str, Any]]:
    return [_version("v2.9", f"{base_of(request)}/image/v2/", "CURRENT")]


def _version(name: str, address: str, status: str) -> dict[str, Any]:
    return {"id": name, "status": status, "updated": UPDATED, "links": [{"rel": "self", "href": address}]}
