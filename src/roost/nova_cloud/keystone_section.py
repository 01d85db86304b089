# SPDX-License-Identifier: Apache-2.0
"""Makes HTTP sessions to services of OpenStack from sections of nova.conf, with keystoneauth.

keystoneauth declares the options itself: which there are depends on `auth_type`, and plugins may bring more. So they
are not declared in Roost; keystoneauth reads them from the same config files, as oslo.messaging reads its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from keystoneauth1 import adapter, exceptions, loading, session
from keystoneauth1.plugin import BaseAuthPlugin
from oslo_config import cfg
from requests.adapters import HTTPAdapter

from roost import __version__
from roost.errors import OptionError, nearest
from roost.options.files import one_line, read_conf

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
