# SPDX-License-Identifier: Apache-2.0
"""Keeps passwords out of the log: in URLs, and in values whose name says that they are secret."""

from __future__ import annotations

import functools
import re

from roost.options.declare import REDACTED

_WORD = re.compile(r"\S+", re.ASCII)
_USER = re.compile(r"://[^/:@]*:")
"""The beginning of ://USER:PASSWORD@."""
_SECRET_WORDS = "password|passwd|secret|token|auth_blob|api_key"  # noqa: S105 - names, no values
_SECRET_NAME = re.compile(_SECRET_WORDS, re.IGNORECASE)
_NAMED_SECRET = re.compile(
    rf"((?:{_SECRET_WORDS})\w{{0,40}}[\"']?[ \t]{{0,9}}[=:][ \t]{{0,9}})(\"[^\"]*\"|'[^']*'|[^\s,;)\]}}]+)",
    re.IGNORECASE,
)
"""password=..., "password": "..." and similar. Repetitions are bounded: no text can make it slow."""


def redact_secrets(text: str) -> str:
    """The text with *** in place of passwords."""
    if "://" in text and "@" in text:
        text = _WORD.sub(_redact_url, text)
    if _SECRET_NAME.search(text):
        text = _NAMED_SECRET.sub(rf"\1{REDACTED}", text)
    return text


@functools.lru_cache(maxsize=1000)
def is_secret_name(name: str) -> bool:
    """Whether a value of this name must not be logged."""
    return _SECRET_NAME.search(name) is not None


def _redact_url(match: re.Match[str]) -> str:
    """Redact up to the last @ of the word: a password may contain one, and so may the next URL of a list."""
    word = match[0]
    end = word.rfind("@")
    user = _USER.search(word, 0, end) if end >= 0 else None
    return f"{word[: user.end()]}{REDACTED}{word[end:]}" if user else word
