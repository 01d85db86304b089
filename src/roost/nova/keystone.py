# SPDX-License-Identifier: Apache-2.0
"""Keystone, with keystoneauth: HTTP sessions to services, and tokens that are validated and remembered for a minute.

Sessions are made from sections of nova.conf. keystoneauth declares the options itself: which there are depends on
`auth_type`, and plugins may bring more. So they are not declared in Roost; keystoneauth reads them from the same
config files, as oslo.messaging reads its own.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from keystoneauth1 import adapter, exceptions, loading, session
from keystoneauth1.adapter import Adapter
from keystoneauth1.plugin import AUTH_INTERFACE, BaseAuthPlugin
from oslo_config import cfg
from requests.adapters import HTTPAdapter

from roost import __version__
from roost.clock import Clock
from roost.errors import IdentityUnavailable, OptionError, TokenRefused, nearest
from roost.options.files import one_line, read_conf, read_file
from roost.records.tokens import Caller, digest_of

CONNECTIONS = 10
"""HTTP connections that are kept open to one service where nothing else is said."""
MOST_SERVICES = 10
"""Services, by host and port, to which connections are kept: the one that is called, and keystone."""
KEYSTONE_SECONDS = 60.0
"""How long keystone may take to answer where the option timeout is not set."""

_LOGIN = re.compile(r"//[^/@]*@")
_NEEDED = {"admin_token": ("endpoint", "token"), "none": ("endpoint",)}
"""auth_type -> options without which it cannot work, and which keystoneauth does not check."""


@dataclass(frozen=True)
class KeystoneSection:
    """A section of nova.conf that says how a service is found, and as whom Roost signs in to it."""

    name: str
    service_type: str
    interfaces: tuple[str, ...]
    """Interfaces of the endpoint, best first, unless the option valid_interfaces is set."""
    remedy: str
    """What to do where the section has no auth_type."""

    def make_adapter(self, files: Sequence[Path], connections: int = CONNECTIONS) -> adapter.Adapter:
        """An HTTP session that finds the service and authenticates; OptionError where the section is wrong.

        `connections`: kept open to the service. As many as threads call it: beyond that, each is opened for one call,
        closed after it, and logged by urllib3 as a warning.
        Nothing is connected: a wrong password, or a service that is away, shows with the first call.
        """
        conf = self._read_conf(files)
        try:
            made = loading.load_session_from_conf_options(conf, self.name, auth=self._load_auth(conf))
            found = loading.load_adapter_from_conf_options(conf, self.name, session=made)
        except cfg.Error as error:
            raise OptionError(f"[{self.name}] {_problem(error)}") from None
        except (exceptions.ClientException, TypeError, ValueError) as error:
            raise OptionError(f"[{self.name}] cannot be used: {one_line(error)}") from None
        self._check_files(conf)
        found.user_agent = f"roost/{__version__}"
        if made.timeout is None:
            made.timeout = KEYSTONE_SECONDS
        _keep_connections(made, connections)
        return found

    def describe(self, files: Sequence[Path]) -> dict[str, str]:
        """How the service is found, by the names of keystoneauth's options, as far as they are set; no secrets.

        OptionError where the section is wrong. `endpoint`: where calls go; absent if keystone says that.
        """
        conf = self._read_conf(files)
        self._load_auth(conf)
        own, login = conf[self.name], conf[conf[self.name].auth_section or self.name]
        found = {
            "auth_type": login.auth_type,
            "auth_section": own.auth_section,
            "endpoint": own.endpoint_override or getattr(login, "endpoint", None),
            "auth_url": getattr(login, "auth_url", None),
            "region_name": own.region_name,
            "valid_interfaces": ", ".join(own.valid_interfaces),
        }
        return {name: _LOGIN.sub("//", str(each)) for name, each in found.items() if each}

    def _read_conf(self, files: Sequence[Path]) -> cfg.ConfigOpts:
        conf = read_conf(files)
        loading.register_session_conf_options(conf, self.name)
        loading.register_adapter_conf_options(conf, self.name)
        loading.register_auth_conf_options(conf, self.name)
        conf.set_default("service_type", self.service_type, group=self.name)
        conf.set_default("valid_interfaces", list(self.interfaces), group=self.name)
        return conf

    def _load_auth(self, conf: cfg.ConfigOpts) -> BaseAuthPlugin:
        """The plugin that `auth_type` names; OptionError where there is none, or it lacks an option."""
        section = conf[self.name].auth_section or self.name
        name = conf[section].auth_type
        if not name:
            raise OptionError(f"[{section}] auth_type is not set", self.remedy)
        # Not left to keystoneauth, which would load all plugins and log those that cannot be loaded.
        if name not in (known := entry_points(group=loading.PLUGIN_NAMESPACE).names):
            raise OptionError(
                f"[{section}] auth_type = {name}: keystoneauth has no such plugin", nearest(name, known)
            )
        try:
            auth = loading.load_auth_from_conf_options(conf, self.name)
        except exceptions.MissingRequiredOptions as error:
            missing = ", ".join(each.dest for each in error.options)
            raise OptionError(f"[{section}] auth_type = {name} also needs: {missing}") from None
        except exceptions.OptionError as error:
            raise OptionError(f"[{section}] auth_type = {name}: {one_line(error)}") from None
        if missing := ", ".join(each for each in _NEEDED.get(name, ()) if not conf[section][each]):
            raise OptionError(f"[{section}] auth_type = {name} also needs: {missing}")
        assert auth is not None  # noqa: S101 - auth_type is set
        return auth

    def _check_files(self, conf: cfg.ConfigOpts) -> None:
        """OptionError where a file for TLS cannot be read: it would show as a service that is away."""
        for name in ("cafile", "certfile", "keyfile"):
            if path := conf[self.name][name]:
                try:
                    Path(path).open("rb").close()
                except OSError as error:
                    raise OptionError(
                        f"[{self.name}] {name} = {path}: {error.strerror}", "name a readable file"
                    ) from None


def _keep_connections(made: session.Session, connections: int) -> None:
    for each in set(made.session.adapters.values()):
        if isinstance(each, HTTPAdapter):
            each.init_poolmanager(MOST_SERVICES, connections)


def _problem(error: cfg.Error) -> str:
    """What is wrong with an option, without its value where that may be a secret."""
    text = one_line(error)
    name, _, reason = text.removeprefix("Value for option ").partition(" from ")
    name = name.replace("-", "_")
    return f"{name}: {reason.partition('is not valid: ')[2]}" if "is not valid: " in reason else text


KEYSTONE_SECTION = KeystoneSection(
    "keystone_authtoken", "identity", ("internal", "public"), "write there what nova-api's nova.conf has"
)
CACHE_SECONDS = 60.0
"""How long a token is good without asking Keystone again, which is how late a revocation is noticed."""
MOST_CACHED = 10_000
MOST_CHECKS = 40 + 32
"""Threads of an API process that may ask Keystone at the same time: of requests, as anyio has them, and of event
streams, as asyncio has them at most."""
LONGEST_TOKEN = 8192
"""Characters of a token of Keystone."""


def open_keystone_tokens(files: Sequence[Path], clock: Clock) -> KeystoneTokens:
    """A validator by [keystone_authtoken] of these config files; OptionError where that is wrong."""
    sections = [read_file(file).get(KEYSTONE_SECTION.name, {}) for file in files]
    told = (
        section["www_authenticate_uri"][-1] for section in reversed(sections) if "www_authenticate_uri" in section
    )
    address = next(told, None) or KEYSTONE_SECTION.describe(files).get("auth_url")
    return KeystoneTokens(KEYSTONE_SECTION.make_adapter(files, MOST_CHECKS), clock, address)


class _Cached(NamedTuple):
    caller: Caller
    until: float
    """By the monotonic clock."""


class KeystoneTokens:
    """Tokens of a Keystone, which is asked for each once a minute. Thread-safe; the cache is bounded."""

    def __init__(self, adapter: Adapter, clock: Clock, sign_in_address: str | None = None) -> None:
        """`adapter`: of `KEYSTONE_SECTION`, with a user that may validate tokens. `clock`: by which answers age.

        `sign_in_address`: where clients get a token.
        """
        self.sign_in_address = sign_in_address
        self._session, self._override = adapter.session, adapter.endpoint_override
        self._clock, self._lock = clock, threading.Lock()
        self._cache: OrderedDict[str, _Cached] = OrderedDict()

    def authenticate(self, token: str) -> Caller:
        """The caller; TokenRefused where Keystone does not know the token, IdentityUnavailable without an answer."""
        if not token.isascii() or not token.isprintable() or not 0 < len(token) <= LONGEST_TOKEN:
            raise _refusal()
        digest, now = digest_of(token), self._clock.monotonic()
        with self._lock:
            known = self._cache.get(digest)
        if known is None or known.until <= now:
            known = self._ask(token, now)
            self._remember(digest, known)
        return known.caller

    def _remember(self, digest: str, found: _Cached) -> None:
        with self._lock:
            self._cache[digest] = found
            self._cache.move_to_end(digest)
            while len(self._cache) > MOST_CACHED:
                self._cache.popitem(last=False)

    def _ask(self, token: str, now: float) -> _Cached:
        record = self._validate(token)
        try:
            caller = _caller(record)
            left = (datetime.fromisoformat(record["expires_at"]) - self._clock.now()).total_seconds()
        except (KeyError, TypeError, ValueError) as error:
            raise IdentityUnavailable(f"Keystone's answer is not understood: {one_line(error)}") from None
        if left <= 0:
            raise _refusal()
        if not caller.project_id and not caller.is_system:
            raise TokenRefused("the token is for no project", "sign in to a project")
        return _Cached(caller, now + min(left, CACHE_SECONDS))

    def _validate(self, token: str) -> Any:
        """The record of a token as Keystone has it. A token of our own that expired is renewed by keystoneauth."""
        try:
            answer = self._session.get(
                "/auth/tokens?nocatalog",
                headers={"X-Subject-Token": token, "Accept": "application/json"},
                endpoint_filter={"interface": AUTH_INTERFACE, "version": (3, 0)},
                endpoint_override=self._override,
                raise_exc=False,
                log=False,
            )
        except exceptions.ClientException as error:
            raise IdentityUnavailable(
                f"Keystone cannot be asked: {one_line(error)}", "is it running, and is [keystone_authtoken] right?"
            ) from None
        if answer.status_code in (401, 404):
            raise _refusal()
        if answer.status_code != 200:
            raise IdentityUnavailable(f"Keystone answers with status {answer.status_code}")
        try:
            return answer.json()["token"]
        except (ValueError, KeyError, TypeError):
            raise IdentityUnavailable(
                "Keystone's answer is not understood", "is auth_url that of Keystone?"
            ) from None


def _caller(record: Any) -> Caller:
    project = record.get("project") or {"id": "", "name": ""}
    return Caller(
        user_id=str(record["user"]["id"]),
        user_name=str(record["user"]["name"]),
        project_id=str(project["id"]),
        project_name=str(project["name"]),
        roles=frozenset(str(each["name"]) for each in record.get("roles", ())),
        is_system=bool((record.get("system") or {}).get("all")),
    )


def _refusal() -> TokenRefused:
    return TokenRefused("the token is unknown, expired or revoked", "sign in again")
