# SPDX-License-Identifier: Apache-2.0
"""How to sign in to the API of a cloud: from clouds.yaml, as `openstack` reads it, or from OS_* variables.

clouds.yaml is looked for where OS_CLIENT_CONFIG_FILE says, in the present folder, in ~/.config/openstack and in
/etc/openstack; a secure.yaml beside it, or where OS_CLIENT_SECURE_FILE says, adds what must not be read by others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from roost.errors import BadInput, nearest

PASSWORD, TOKEN, CREDENTIAL = "password", "token", "application_credential"
NO_SIGN_IN, HTTP_BASIC, ADMIN_TOKEN = "none", "http_basic", "admin_token"
_AUTH_TYPES = {
    **dict.fromkeys((PASSWORD, "v3password"), PASSWORD),
    **dict.fromkeys((TOKEN, "v3token"), TOKEN),
    **dict.fromkeys(("v3applicationcredential", "v3application_credential", CREDENTIAL), CREDENTIAL),
    NO_SIGN_IN: NO_SIGN_IN,
    HTTP_BASIC: HTTP_BASIC,
    ADMIN_TOKEN: ADMIN_TOKEN,
}
"""auth_type in its spellings -> way of signing in."""
WITHOUT_IDENTITY = (NO_SIGN_IN, HTTP_BASIC, ADMIN_TOKEN)
"""Ways that ask no identity service: they need the address of the API."""
_AUTH_KEYS = (
    *("auth_url", "username", "user_id", "password", "user_domain_id", "user_domain_name", "token", "endpoint"),
    *("project_id", "project_name", "project_domain_id", "project_domain_name", "system_scope"),
    *("application_credential_id", "application_credential_name", "application_credential_secret"),
)
_FALSE = ("false", "no", "off", "0", "")
OVERRIDE = "_endpoint_override"


@dataclass(frozen=True)
class CloudAccess:
    """The address of a cloud's API, and who signs in there."""

    name: str
    """Of the cloud, for messages."""
    auth_type: str
    auth: Mapping[str, str] = field(repr=False)
    region: str | None = None
    interface: str = "public"
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Type of a service -> its address, in place of the one in the catalog."""
    verify: bool | str = True
    """Whether certificates are checked, or the file of the authorities that sign them."""
    certificate: str | tuple[str, str] | None = None
    """The client's own: a PEM file, or two, the second with the key."""

    @classmethod
    def of(cls, name: str, settings: Mapping[str, Any]) -> CloudAccess:
        """The access that an entry of clouds.yaml describes; BadInput where it does not suffice."""
        auth = {key: str(value) for key, value in (settings.get("auth") or {}).items() if value is not None}
        given = str(settings.get("auth_type") or _guess_auth_type(auth)).lower()
        auth_type = _AUTH_TYPES.get(given)
        if auth_type is None:
            raise BadInput(f"cloud {name}: auth_type {given[:40]!r} is not known", nearest(given, _AUTH_TYPES))
        endpoints = {
            key.removesuffix(OVERRIDE).replace("_", "-"): str(value)
            for key, value in settings.items()
            if key.endswith(OVERRIDE) and value
        }
        needed = "endpoint" if auth_type in WITHOUT_IDENTITY and "compute" not in endpoints else "auth_url"
        if not auth.get(needed) and (auth_type not in WITHOUT_IDENTITY or needed == "endpoint"):
            raise BadInput(f"cloud {name}: {needed} is missing", f"add it below auth, or set OS_{needed.upper()}")
        region, interface = settings.get("region_name"), settings.get("interface") or "public"
        return cls(
            name,
            auth_type,
            auth,
            str(region) if region else None,
            str(interface).removesuffix("URL"),
            endpoints,
            _verify(settings),
            _certificate(settings),
        )

    def in_project(self, project: str) -> CloudAccess:
        """The same access to another project, by its name or id."""
        kept = {key: value for key, value in self.auth.items() if key not in ("project_id", "system_scope")}
        return CloudAccess(**{**vars(self), "auth": {**kept, "project_name": project}})


def find_access(
    name: str | None, environment: Mapping[str, str] = os.environ, folder: Path | None = None
) -> CloudAccess | None:
    """The access to the cloud with this name, else the one that OS_CLOUD or OS_AUTH_URL names; None: none is named.

    BadInput where the cloud is unknown. `folder`: in place of the present one.
    """
    wanted = name or environment.get("OS_CLOUD")
    if wanted:
        return _find_in_files(wanted, environment, folder or Path())
    if environment.get("OS_AUTH_URL") or environment.get("OS_ENDPOINT"):
        return CloudAccess.of("of OS_AUTH_URL", _of_environment(environment))
    return None


def read_access(path: Path, name: str) -> CloudAccess:
    """The access to a cloud that a file describes; BadInput where it does not."""
    return _find(path, _read(path), name)


def _find_in_files(name: str, environment: Mapping[str, str], folder: Path) -> CloudAccess:
    named = environment.get("OS_CLIENT_CONFIG_FILE")
    path = Path(named) if named else next((each for each in _places(environment, folder) if each.is_file()), None)
    if path is None:
        hint = "set OS_CLIENT_CONFIG_FILE; roost dev writes one, and prints where"
        raise BadInput(f"cloud {name[:60]}: there is no clouds.yaml", hint)
    document = _read(path)
    secret = Path(environment.get("OS_CLIENT_SECURE_FILE") or path.with_name("secure.yaml"))
    return _find(path, _merged(document, _read(secret)) if secret.is_file() else document, name)


def _find(path: Path, document: Mapping[str, Any], name: str) -> CloudAccess:
    clouds = document.get("clouds")
    if not isinstance(clouds, dict) or not isinstance(clouds.get(name), dict):
        known = [str(each) for each in clouds] if isinstance(clouds, dict) else []
        raise BadInput(f"{path}: there is no cloud {name[:60]}", nearest(name, known))
    return CloudAccess.of(name, clouds[name])


def _places(environment: Mapping[str, str], folder: Path) -> Iterator[Path]:
    own = environment.get("XDG_CONFIG_HOME") or os.path.join(
        environment.get("HOME", os.path.expanduser("~")), ".config"
    )
    for place in (folder, Path(own, "openstack"), Path("/etc/openstack")):
        yield from (place / "clouds.yaml", place / "clouds.yml")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError):  # their texts may repeat a password
        raise BadInput(f"{path}: is no YAML", "see clouds.yaml in the documentation of openstacksdk") from None
    return found if isinstance(found, dict) else {}


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of two mappings; those of the second win, and mappings in them are merged alike."""
    both = {**first, **second}
    for key in first.keys() & second.keys():
        if isinstance(first[key], dict) and isinstance(second[key], dict):
            both[key] = _merged(first[key], second[key])
    return both


def _of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """The OS_* variables as an entry of clouds.yaml."""
    auth = {key: environment.get(f"OS_{key.upper()}") for key in _AUTH_KEYS}
    plain = ("auth_type", "region_name", "interface", "cacert", "cert", "key")
    settings = {key: environment.get(f"OS_{key.upper()}") for key in plain}
    is_insecure = environment.get("OS_INSECURE", "").lower() not in _FALSE
    return {**settings, "verify": not is_insecure, "auth": {key: value for key, value in auth.items() if value}}


def _guess_auth_type(auth: Mapping[str, str]) -> str:
    if auth.get("application_credential_secret"):
        return CREDENTIAL
    return TOKEN if auth.get("token") and not auth.get("password") else PASSWORD


def _verify(settings: Mapping[str, Any]) -> bool | str:
    if str(settings.get("verify", True)).lower() in _FALSE or settings.get("insecure"):
        return False
    cacert = settings.get("cacert")
    return os.path.expanduser(str(cacert)) if cacert else True


def _certificate(settings: Mapping[str, Any]) -> str | tuple[str, str] | None:
    cert, key = settings.get("cert"), settings.get("key")
    if not cert:
        return None
    return (os.path.expanduser(str(cert)), os.path.expanduser(str(key))) if key else os.path.expanduser(str(cert))
