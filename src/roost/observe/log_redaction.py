# SPDX-License-Identifier: Apache-2.0
"""Keeps passwords out of the log: those in addresses, and values whose name says that they are secret."""

from __future__ import annotations

import functools
import re

HIDDEN = "***"

_WORD = re.compile(r"\S+", re.ASCII)
_USER = re.compile(r"://[^/:@]*:")
"""The beginning of ://USER:PASSWORD@."""
_SECRET_WORDS = "password|passwd|secret|token|auth_blob|api_key"  # noqa: S105 - names, no values
_SECRET_NAME = re.compile(_SECRET_WORDS, re.IGNORECASE)
_SAID = re.compile(
    rf"((?:{_SECRET_WORDS})\w{{0,40}}[\"']?[ \t]{{0,9}}[=:][ \t]{{0,9}})(\"[^\"]*\"|'[^']*'|[^\s,;)\]}}]+)",
    re.IGNORECASE,
)
"""password=..., "password": "...", and the like. Bounded, so that no text can make it slow."""


def without_secrets(text: str) -> str:
    """The same text with *** for passwords."""
    if "://" in text and "@" in text:
        text = _WORD.sub(_hide_in_address, text)
    if _SECRET_NAME.search(text):
        text = _SAID.sub(rf"\1{HIDDEN}", text)
    return text


@functools.lru_cache(maxsize=1000)
def is_secret_name(name: str) -> bool:
    """Whether a value of this name is none of the log's business."""
    return _SECRET_NAME.search(name) is not None


def _hide_in_address(match: re.Match[str]) -> str:
    """Up to the last @ of the word: a password may hold one, and so may the next address of a list."""
    word = match[0]
    end = word.rfind("@")
    user = _USER.search(word, 0, end) if end >= 0 else None
    return f"{word[: user.end()]}{HIDDEN}{word[end:]}" if user else word
