# SPDX-License-Identifier: Apache-2.0
"""Trust levels of nodes: the client of an attestation service, and a cache with the rule of nova's TrustedFilter.

The client makes OpenAttestation's call PollHosts, over HTTPS. The rule says when a level has expired.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple

from roost.errors import OptionError
from roost.options.declare import option

GROUP = "trusted_computing"
ANSWERS = frozenset({200, 201, 202, 204})
ANSWER_LIMIT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class AttestationOptions:
    """Address, credentials and TLS of the attestation service."""

    attestation_server: str | None = option(
        None,
        group=GROUP,
        in_fleet=False,
        help="host name or address of the attestation service; unset: every level is unknown",
    )
    attestation_server_ca_file: str | None = option(
        None,
        group=GROUP,
        in_fleet=False,
        help="PEM file of the authority that signed the service's certificate; unset: the system's",
    )
    attestation_port: int = option(
        8443, min=1, max=65535, group=GROUP, in_fleet=False, help="HTTPS port of the attestation service"
    )
    attestation_api_url: str = option(
        "/OpenAttestationWebServices/V1.0", group=GROUP, in_fleet=False, help="path under which the service answers"
    )
    attestation_auth_blob: str | None = option(
        None,
        group=GROUP,
        secret=True,
        in_fleet=False,
        help="secret that is sent with each request, in the header x-auth-blob",
    )
    attestation_auth_timeout: int = option(
        60, min=0, group=GROUP, help="seconds for which a node's trust level is valid after its validation"
    )
    attestation_insecure_ssl: bool = option(
        False, group=GROUP, in_fleet=False, help="accept any certificate of the service, without verification"
    )

    def __repr__(self) -> str:
        """All values but the secret, which must not be logged."""
        return f"AttestationOptions({vars(self) | {'attestation_auth_blob': '***'}})"


class AttestationClient:
    """Polls one attestation service. Where it does not answer, `poll` returns None and raises nothing."""

    def __init__(self, options: AttestationOptions, timeout_seconds: float = 10) -> None:
        """OptionError where no poll could ever succeed: a CA file or a secret that cannot be used.

        `timeout_seconds` bounds each wait for the network, and the time until the whole answer has arrived.
        """
        self.last_problem = ""
        """Why the last poll failed, or which part of its answer was skipped; empty where all was well."""
        self._options = options
        self._timeout_seconds = timeout_seconds
        self._headers = _make_headers(options)
        self._context = _make_context(options) if options.attestation_server else None

    def poll(self, nodes: Sequence[str]) -> dict[str, tuple[str, str]] | None:
        """Node name -> (trust level, validation time as the service wrote it); None if there is no answer."""
        self.last_problem = ""
        if not self._options.attestation_server:
            self.last_problem = f"[{GROUP}] attestation_server is not set"
            return None
        try:
            entries = _entries_in(self._post({"count": len(nodes), "hosts": list(nodes)}))
        except HTTPException as error:  # its text may repeat what was sent, so only its name is kept
            self._note(type(error).__name__)
            return None
        except (OSError, ValueError, RecursionError) as error:
            self._note(str(error) or type(error).__name__)
            return None
        attested = [each for each in map(_read_entry, entries) if each]
        if unreadable := len(entries) - len(attested):
            self._note(f"{unreadable} of {len(entries)} hosts in its answer are unreadable")
        return {node: (level, vtime) for node, level, vtime in attested}

    def _note(self, problem: str) -> None:
        server, port = self._options.attestation_server, self._options.attestation_port
        self.last_problem = f"attestation service {server}:{port}: {problem}"

    def _post(self, request: dict[str, Any]) -> bytes:
        options = self._options
        deadline = time.monotonic() + self._timeout_seconds
        path = "/" + f"{options.attestation_api_url.strip('/')}/PollHosts".lstrip("/")
        connection = HTTPSConnection(
            options.attestation_server or "",
            options.attestation_port,
            timeout=self._timeout_seconds,
            context=self._context,
        )
        with closing(connection):
            connection.request("POST", path, json.dumps(request).encode(), self._headers)
            with connection.getresponse() as response:
                if response.status not in ANSWERS:
                    raise ConnectionError(f"it answered with status {response.status}")
                body = _read_body(response, deadline)
        return b'{"hosts": []}' if response.status == 204 and not body else body


def _make_headers(options: AttestationOptions) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if blob := options.attestation_auth_blob:
        if not (blob.isascii() and blob.isprintable()):
            raise OptionError(
                f"[{GROUP}] attestation_auth_blob cannot be sent as a header",
                "use printable ASCII characters, on one line",
            )
        headers["x-auth-blob"] = blob
    return headers


def _make_context(options: AttestationOptions) -> ssl.SSLContext:
    if options.attestation_insecure_ssl:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    ca_file = options.attestation_server_ca_file or None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise OptionError(
            f"[{GROUP}] attestation_server_ca_file = {ca_file}: {error.strerror}",
            "name a readable PEM file with certificates",
        ) from None


def _read_body(response: HTTPResponse, deadline: float) -> bytes:
    body = bytearray()
    while chunk := response.read1(65536):
        body += chunk
        if len(body) > ANSWER_LIMIT_BYTES:
            raise ConnectionError(f"its answer is longer than {ANSWER_LIMIT_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("its answer took too long")
    return bytes(body)


def _entries_in(body: bytes) -> list[Any]:
    answer = json.loads(body)
    entries = answer.get("hosts") if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        raise ValueError("its answer holds no list of hosts")
    return entries


def _read_entry(entry: Any) -> tuple[str, str, str] | None:
    """(node, level, validation time) of one entry in the answer; None where it lacks a name or a level."""
    match entry:
        case {"host_name": str(node), "trust_lvl": str(level), **others}:
            vtime = others.get("vtime")
            return node, level, vtime if isinstance(vtime, str) else ""
    return None


UNKNOWN = "unknown"
"""The level of a node that the attestation service has not attested."""


class _CachedLevel(NamedTuple):
    level: str
    validated_at: float
    """Unix time in seconds; minus infinity where the service did not name the node."""


_UNATTESTED = _CachedLevel(UNKNOWN, float("-inf"))


class TrustLevels:
    """Cache of the last trust level of each node; polls the attestation service when it is stale."""

    def __init__(self, client: AttestationClient, timeout_seconds: float, now: Callable[[], float]) -> None:
        """`timeout_seconds`: how long a level is valid after its validation; `now` returns unix time in seconds."""
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._now = now
        self._entries: dict[str, _CachedLevel] = {}

    def levels(self, nodes: Sequence[str]) -> dict[str, str]:
        """Node name -> trust level. `nodes` has to name every known node: others are dropped at the next poll.

        One entry that is missing or stale invalidates the cache, and the service is polled for all nodes.
        """
        entries = self._entries
        oldest = self._now() - self._timeout_seconds
        if any(entries.get(node, _UNATTESTED).validated_at < oldest for node in nodes):
            entries = self._entries = self._poll(list(dict.fromkeys(nodes)))
        return {node: entries[node].level for node in nodes}

    def _poll(self, nodes: list[str]) -> dict[str, _CachedLevel]:
        answer = self._client.poll(nodes) or {}
        return {node: self._entry_of(*answer[node]) if node in answer else _UNATTESTED for node in nodes}

    def _entry_of(self, level: str, vtime: str) -> _CachedLevel:
        validated_at = parse_time(vtime)
        return _CachedLevel(UNKNOWN, self._now()) if validated_at is None else _CachedLevel(level, validated_at)


def parse_time(text: str) -> float | None:
    """Unix time of an ISO-8601 time or of a date in the locale's own form, UTC unless it names a zone.

    None if it is neither.
    """
    for parse in (datetime.fromisoformat, _parse_locale_date):
        try:
            moment = parse(text.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            continue
    return None


def _parse_locale_date(text: str) -> datetime:
    return datetime.strptime(text, "%c")
