# SPDX-License-Identifier: Apache-2.0
"""Hashes of passwords: scrypt, stored with its parameters and salt, so that a later version can raise the cost."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple

from roost.errors import BadInput

SALT_BYTES = 16
HASH_BYTES = 32
LONGEST_PASSWORD = 1024
"""Characters; a longer one is refused, so that no client makes the server hash megabytes."""
MOST_THREADS = 4
"""Hashes are made in so many threads, or in as many as there are CPUs: each keeps a CPU busy."""
_HASHING = ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "scrypt")
"""Callers wait. Hashes made in their own threads would leave 16 MiB each in the malloc arenas of all of these."""


class ScryptCost(NamedTuple):
    """Parameters of scrypt: it takes 128 * n * r bytes of memory, and time in proportion to n * r * p."""

    n: int = 2**14
    r: int = 8
    p: int = 1


DEFAULT_COST = ScryptCost()
"""16 MiB and some 40 ms."""


def check_password(password: str) -> None:
    """BadInput for a password that is empty or too long."""
    if not password:
        raise BadInput("the password is empty")
    if len(password) > LONGEST_PASSWORD:
        raise BadInput(f"the password has {len(password)} characters", f"at most {LONGEST_PASSWORD}")


def hash_password(password: str, cost: ScryptCost = DEFAULT_COST) -> str:
    """The text to be stored: `scrypt$n$r$p$salt$hash`, the last two in base64. BadInput for an unfit password."""
    check_password(password)
    salt = os.urandom(SALT_BYTES)
    return "$".join(("scrypt", *map(str, cost), _as_text(salt), _as_text(_scrypt(password, salt, cost))))


def verify_password(password: str, stored: str | None, cost: ScryptCost = DEFAULT_COST) -> bool:
    """Whether this is the password that was stored, compared in constant time.

    None, of a user who has no password or does not exist: False, after the time that a hash of this cost takes.
    """
    known, salt, wanted = _parse(stored if stored is not None else _dummy_hash(cost))
    found = _scrypt(password[:LONGEST_PASSWORD], salt, known)
    return hmac.compare_digest(found, wanted) and stored is not None and len(password) <= LONGEST_PASSWORD


@cache
def _dummy_hash(cost: ScryptCost) -> str:
    return "$".join(("scrypt", *map(str, cost), _as_text(bytes(SALT_BYTES)), _as_text(bytes(HASH_BYTES))))


def _parse(stored: str) -> tuple[ScryptCost, bytes, bytes]:
    _, n, r, p, salt, wanted = stored.split("$")
    return ScryptCost(int(n), int(r), int(p)), base64.b64decode(salt), base64.b64decode(wanted)


def _scrypt(password: str, salt: bytes, cost: ScryptCost) -> bytes:
    memory = 128 * cost.r * (cost.n + cost.p + 2)  # as OpenSSL counts it
    secret = password.encode("utf-8", "surrogatepass")  # JSON may have half a character
    parameters = {"n": cost.n, "r": cost.r, "p": cost.p, "maxmem": memory, "dklen": HASH_BYTES}
    return _HASHING.submit(hashlib.scrypt, secret, salt=salt, **parameters).result()


def _as_text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
