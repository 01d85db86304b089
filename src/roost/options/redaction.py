# SPDX-License-Identifier: Apache-2.0
"""Redaction of secrets in option values that are shown or logged."""

from __future__ import annotations

import re
from typing import Any

from roost.options.declare import REDACTED, Declared

ADDRESS_SUFFIXES = ("address", "connection", "url")
"""Endings of the names of secret options of which only the password and the parameters are redacted."""

_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::\d+)?"
_ONE_LOGIN = rf"[\w.-]*(?::[^\s/@,:]*)?@{_HOST}"
_LOGINS = re.compile(rf"[^:]*://{_ONE_LOGIN}(?:,{_ONE_LOGIN})*(?=[/?][^@]*$|$)")
"""SCHEME://USER:PASSWORD@HOST:PORT, repeated for a cluster of brokers. Does not match where an @ follows."""
_NO_LOGIN = re.compile(rf"[^:]*://(?:{_HOST}(?:,{_HOST})*)?(?:[/?]|$)")
_PASSWORD = re.compile(r":[^\s/@,:]*(?=@)")
_UP_TO_LAST_AT = re.compile(r"(?<=://)([^/:@]*):.*@", re.DOTALL)
_PARAMETERS = re.compile(r"\?.*", re.DOTALL)


def redact(option: Declared, value: Any) -> str:
    """A value as text. A secret becomes ***; of an address only the password and the parameters do."""
    if isinstance(value, (list, tuple)):
        return ", ".join(redact(option, each) for each in value)
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if not option.secret:
        return _without_password(text) if "://" in text else text
    if "://" in text and option.name.endswith(ADDRESS_SUFFIXES):
        return _PARAMETERS.sub(f"?{REDACTED}", _without_password(text))
    return REDACTED if text else ""


def _without_password(address: str) -> str:
    """An address with its passwords redacted. Where it is malformed, more than the password may be."""
    if logins := _LOGINS.match(address):
        return _PASSWORD.sub(f":{REDACTED}", logins[0]) + address[logins.end() :]
    if "@" in address:
        return _UP_TO_LAST_AT.sub(rf"\1:{REDACTED}@", address)
    return address if _NO_LOGIN.match(address) else f"{address.partition('://')[0]}://{REDACTED}"
