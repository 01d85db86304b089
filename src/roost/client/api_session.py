# SPDX-License-Identifier: Apache-2.0
"""Calls to the API of a cloud: signs in, finds the services in the catalog, and turns refusals into errors.

It signs in at Identity v3, by password, token or application credential. `error_of` is the counterpart of
`api/problems.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests

from roost.client.cloud_access import ADMIN_TOKEN, CREDENTIAL, HTTP_BASIC, PASSWORD, WITHOUT_IDENTITY, CloudAccess
from roost.errors import (
    ApiError,
    ApiUnavailable,
    BadInput,
    Conflict,
    Forbidden,
    RemoteNoValidHost,
    RoostError,
    SignInRefused,
    TokenRefused,
    TooManyAttempts,
    UnknownName,
)

NO_VALID_HOST = "No valid host"
"""How the message begins where no host fits, in nova's words."""
_CLASSES: Mapping[int, type[RoostError]] = {
    400: BadInput,
    401: TokenRefused,
    403: Forbidden,
    404: UnknownName,
    409: Conflict,
}
_USUAL_WAIT_SECONDS = 5.0


def error_of(cloud: str, response: requests.Response) -> RoostError:
    """The error that an answer stands for, with the message that is in it. `cloud`: its name, for the message."""
    status, message = response.status_code, _message_in(response)
    if status == 429:
        return TooManyAttempts(message, _seconds_to_wait(response))
    if status == 400 and message.startswith(NO_VALID_HOST):
        return no_valid_host(message)
    if status >= 500 and status != 501:
        return ApiUnavailable(f"cloud {cloud} cannot answer: {message}", "its log says more")
    return _CLASSES.get(status, ApiError)(message)


def no_valid_host(text: str) -> RemoteNoValidHost:
    """The error where no host fits; a summary of the decision is in brackets at the end of the text."""
    message, _, summary = text.partition(" (")
    return RemoteNoValidHost("NoValidHost", message, summary=summary.removesuffix(")"))


def sign_in_error(cloud: str, response: requests.Response) -> RoostError:
    """The error for an answer to a sign-in that is no token."""
    message = f"cloud {cloud}: {_message_in(response)}"
    if response.status_code in (401, 403):
        return SignInRefused(message, "check user, password and project in clouds.yaml, or in OS_*")
    if response.status_code == 404:
        return BadInput(f"cloud {cloud}: no sign-in is possible at that address", "auth_url ends with /identity/v3")
    return error_of(cloud, response) if not response.ok else ApiError(f"cloud {cloud}: the sign-in gave no token")


def _message_in(response: requests.Response) -> str:
    """The message of a fault, in one line; where there is none, status and reason."""
    try:
        document: Any = response.json()
    except ValueError:
        document = None
    if isinstance(document, dict):
        for fault in document.values():  # one key, which names the kind of fault
            if isinstance(fault, dict) and fault.get("message"):
                return " ".join(str(fault["message"]).split())
    return f"status {response.status_code} {response.reason or ''}".rstrip()


def _seconds_to_wait(response: requests.Response) -> float:
    try:
        return max(1.0, float(response.headers.get("Retry-After", _USUAL_WAIT_SECONDS)))
    except ValueError:
        return _USUAL_WAIT_SECONDS


DEFAULT_DOMAIN = {"id": "default"}
_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Body = dict[str, Any]


def sign_in_body(access: CloudAccess) -> Body:
    """The body of POST /auth/tokens; BadInput where something is missing."""
    if access.auth_type == CREDENTIAL:
        return {"auth": {"identity": _by(CREDENTIAL, _credential(access))}}  # it has a project of its own
    if access.auth_type == PASSWORD:
        proof = _by(PASSWORD, {"user": {**_user(access), "password": _needed(access, "password")}})
    else:
        proof = _by("token", {"id": _needed(access, "token")})
    return {"auth": {"identity": proof, **_scope(access)}}


def _by(method: str, proof: Body) -> Body:
    return {"methods": [method], method: proof}


def _needed(access: CloudAccess, key: str) -> str:
    found = access.auth.get(key)
    if not found:
        raise BadInput(f"cloud {access.name}: {key} is missing", f"add it below auth, or set OS_{key.upper()}")
    return found


def _user(access: CloudAccess) -> Body:
    if found := access.auth.get("user_id"):
        return {"id": found}
    return {"name": _needed(access, "username"), "domain": _domain(access, "user_domain")}


def _credential(access: CloudAccess) -> Body:
    secret = {"secret": _needed(access, "application_credential_secret")}
    if found := access.auth.get("application_credential_id"):
        return {"id": found, **secret}
    return {"name": _needed(access, "application_credential_name"), "user": _user(access), **secret}


def _scope(access: CloudAccess) -> Body:
    """What the token is for; empty: the user's only project. Who has several gets an unscoped token."""
    auth = access.auth
    if auth.get("system_scope"):
        return {"scope": {"system": {"all": True}}}
    name = auth.get("project_name", "")
    if found := auth.get("project_id") or (name if _ID.fullmatch(name) else None):
        return {"scope": {"project": {"id": found}}}
    return {"scope": {"project": {"name": name, "domain": _domain(access, "project_domain")}}} if name else {}


def _domain(access: CloudAccess, kind: str) -> Body:
    for key in ("id", "name"):
        if found := access.auth.get(f"{kind}_{key}"):
            return {key: found}
    return DEFAULT_DOMAIN


COMPUTE, IMAGE, ROOST = "compute", "image", "roost"
MICROVERSION = "2.96"
"""Of the compute API: the newest whose answers are read here."""
TIMEOUT_SECONDS = (10.0, 120.0)
"""Until a connection is there, and then between two parts of an answer."""
PAGE_SIZE = 1000
_PATHS = {COMPUTE: "/v2.1", IMAGE: "/image", ROOST: "/roost/v1"}
"""Where each API is on a server of Roost, should the catalog not say."""


class ApiSession:
    """Calls in the name of one caller, who signs in with the first of them. For one thread."""

    def __init__(self, access: CloudAccess) -> None:
        self._access = access
        self._http = requests.Session()
        self._http.verify, self._http.cert = access.verify, access.certificate
        self._http.headers["Accept"] = "application/json"
        if access.auth_type == HTTP_BASIC:
            self._http.auth = (access.auth.get("username", ""), access.auth.get("password", ""))
        self._endpoints: dict[str, str] | None = None
        """Type of a service -> its address; None before the sign-in."""

    def close(self) -> None:
        """End the connections."""
        self._http.close()

    def call(
        self,
        service: str,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        version: str | None = None,
    ) -> Any:
        """The answer to a call, from JSON; None if it is empty. Errors are Roost's own, as `api_problems` says.

        `version`: microversion of the compute API, in place of MICROVERSION.
        """
        response = self._send(service, method, path, json=body, params=query, headers=_headers(version))
        return _json_of(response) if response.content else None

    def fetch(self, service: str, path: str) -> bytes:
        """The content of a file."""
        return self._send(service, "GET", path).content

    def pages(self, service: str, path: str, key: str, query: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """All entries of a list, page by page. `key`: under which they are in the answer."""
        wanted: dict[str, Any] | None = {"limit": PAGE_SIZE, **(query or {})}
        while wanted is not None:
            answer = self.call(service, "GET", path, query=wanted)
            found = answer.get(key) if isinstance(answer, dict) else None
            if not isinstance(found, list):
                raise ApiError(f"{self._access.name}: the answer to GET {path} has no {key}")
            yield from found
            wanted = _next_query(answer, key)

    # --- how ---------------------------------------------------------------------------------------------

    def _send(self, service: str, method: str, path: str, **parts: Any) -> requests.Response:
        had_token = self._endpoints is not None
        response = self._request(method, f"{self._endpoint(service)}{path}", **parts)
        if response.status_code == 401 and had_token and self._access.auth_type not in WITHOUT_IDENTITY:
            self._endpoints = None  # the token has expired
            response = self._request(method, f"{self._endpoint(service)}{path}", **parts)
        if response.ok:
            return response
        raise error_of(self._access.name, response)

    def _request(self, method: str, address: str, **parts: Any) -> requests.Response:
        try:
            return self._http.request(method, address, timeout=TIMEOUT_SECONDS, allow_redirects=False, **parts)
        except requests.exceptions.SSLError as error:
            hint = "set cacert in clouds.yaml, or OS_CACERT, to the authority that signed its certificate"
            raise ApiUnavailable(f"{_place(address)} is not trusted: {_cause(error)}", hint) from None
        except requests.exceptions.Timeout:
            hint = "is it reachable from here? Whether a change was made is not known"
            raise ApiUnavailable(f"{_place(address)} has not answered in time", hint) from None
        except requests.exceptions.ConnectionError as error:
            hint = "is it running? start one: roost dev, or roost service api"
            raise ApiUnavailable(f"{_place(address)} cannot be reached: {_cause(error)}", hint) from None
        except (requests.exceptions.RequestException, OSError, ValueError) as error:
            raise ApiError(f"cloud {self._access.name}: {str(error)[:200]}") from None

    def _endpoint(self, service: str) -> str:
        if self._endpoints is None:
            self._endpoints = self._sign_in()
        found = self._access.endpoints.get(service) or self._endpoints.get(service)
        if found is None:
            compute = self._access.endpoints.get(COMPUTE) or self._endpoints.get(COMPUTE)
            if compute is None:
                raise ApiError(f"cloud {self._access.name}: its catalog has no service of type {service}")
            found = compute.partition("/v2")[0] + _PATHS[service]
        found = found.rstrip("/")
        return found.removesuffix("/v2") if service == IMAGE else found

    def _sign_in(self) -> dict[str, str]:
        """Get a token, which the next calls carry; the catalog that came with it."""
        access = self._access
        if access.auth_type in WITHOUT_IDENTITY:
            if access.auth_type == ADMIN_TOKEN:
                self._http.headers["X-Auth-Token"] = access.auth.get("token", "")
            base = access.auth.get("endpoint", "").rstrip("/").partition("/v2")[0]
            return {service: f"{base}{path}" for service, path in _PATHS.items()} if base else {}
        self._http.headers.pop("X-Auth-Token", None)
        response = self._request(
            "POST", f"{_identity(access.auth['auth_url'])}/auth/tokens", json=sign_in_body(access)
        )
        token = response.headers.get("X-Subject-Token")
        if not response.ok or not token:
            raise sign_in_error(access.name, response)
        self._http.headers["X-Auth-Token"] = token
        document = _json_of(response)
        _check_scope(document, access)
        return _endpoints_in(document, access)


def _headers(version: str | None) -> dict[str, str]:
    return {"OpenStack-API-Version": f"compute {version or MICROVERSION}"}


def _identity(address: str) -> str:
    """The address of Identity v3; people write it with and without its version."""
    address = address.rstrip("/")
    return address if address.endswith("/v3") else f"{address}/v3"


def _check_scope(document: Any, access: CloudAccess) -> None:
    """Raise BadInput for a token that is for nothing, as users get it who name none of their projects."""
    record = document.get("token") if isinstance(document, dict) else None
    if isinstance(record, dict) and not record.keys() & {"project", "system", "domain", "catalog"}:
        hint = "name one: project_name below auth in clouds.yaml, or OS_PROJECT_NAME"
        raise BadInput(f"cloud {access.name}: no project is named, and the user has not exactly one", hint)


def _endpoints_in(document: Any, access: CloudAccess) -> dict[str, str]:
    """Type of a service -> its address in the wanted region, as the catalog of a token says."""
    found: dict[str, str] = {}
    try:
        for service in document["token"].get("catalog", ()):
            for each in service["endpoints"]:
                is_wanted = access.region in (None, each.get("region_id"), each.get("region"))
                if each.get("interface") == access.interface and is_wanted:
                    found.setdefault(service["type"], each["url"])
    except (AttributeError, LookupError, TypeError):
        raise ApiError(f"cloud {access.name}: the answer to the sign-in is no token of Identity v3") from None
    return found


def _json_of(response: requests.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise ApiError(f"{_place(response.url)} answered with something that is no JSON") from None


def _next_query(answer: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    """The query of the next page; None where this one is the last."""
    links = [each["href"] for each in answer.get(f"{key}_links") or () if each.get("rel") == "next"]
    following = links[0] if links else answer.get("next")
    return dict(parse_qsl(urlsplit(following).query)) if following else None


def _place(address: str) -> str:
    """Scheme, host and port of an address: what else is in it may be a secret."""
    parts = urlsplit(address)
    return f"the API at {parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _cause(error: Exception) -> str:
    """What the system says of a connection that failed."""
    inner = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    cause = getattr(inner, "__cause__", None) or inner
    return str(getattr(cause, "strerror", None) or cause).rpartition(": ")[2][:200]
