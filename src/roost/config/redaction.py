# SPDX-License-Identifier: Apache-2.0
"""Values as people may see them: without secrets."""

from __future__ import annotations

import re
from typing import Any

from roost.options import Declared

HIDDEN = "***"
ADDRESSES = ("address", "connection", "url")
"""How the names of secret options end of which all but the password may be seen."""

_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::\d+)?"
_ONE_LOGIN = rf"[\w.-]*(?::[^\s/@,:]*)?@{_HOST}"
_LOGINS = re.compile(rf"[^:]*://{_ONE_LOGIN}(?:,{_ONE_LOGIN})*(?=[/?][^@]*$|$)")
"""SCHEME://USER:PASSWORD@HOST:PORT, several for a cluster of brokers. With an @ behind them they end elsewhere."""
_NO_LOGIN = re.compile(rf"[^:]*://(?:{_HOST}(?:,{_HOST})*)?(?:[/?]|$)")
_PASSWORD = re.compile(r":[^\s/@,:]*(?=@)")
_ANYTHING = re.compile(r"(?<=://)([^/:@]*):.*@", re.DOTALL)
_PARAMETERS = re.compile(r"\?.*", re.DOTALL)


def shown(option: Declared, value: Any) -> str:
    """A value as text: a secret is ***, of an address only the password and the parameters are."""
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(option, each) for each in value)
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if not option.secret:
        return _without_password(text) if "://" in text else text
    if "://" in text and option.name.endswith(ADDRESSES):
        return _PARAMETERS.sub(f"?{HIDDEN}", _without_password(text))
    return HIDDEN if text else ""


def _without_password(address: str) -> str:
    """Where it is not quite an address, rather too much of it is hidden."""
    if logins := _LOGINS.match(address):
        return _PASSWORD.sub(f":{HIDDEN}", logins[0]) + address[logins.end() :]
    if "@" in address:
        return _ANYTHING.sub(rf"\1:{HIDDEN}@", address)
    return address if _NO_LOGIN.match(address) else f"{address.partition('://')[0]}://{HIDDEN}"
