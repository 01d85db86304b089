# SPDX-License-Identifier: Apache-2.0
"""Simple values from a message, taken as nova takes them: "512" is a number, 5 is a text, null an empty list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from roost.errors import FieldError
from roost.model import checks
from roost.model.message_fields import FromMessage

MOST_LISTED = 10_000
"""Entries of one list or mapping in a message."""
LONGEST_TEXT = 65_536
"""Characters of one text in a message."""
MOST_INSTANCES = 10_000
"""Of one request: more at once are a mistake, and would keep others waiting for seconds."""

Record = TypeVar("Record")
Message = TypeVar("Message", bound=FromMessage)


def number(value: Any, where: str) -> int:
    """A whole number, also one that is written as text or as a float, which loses its fraction."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        return checks.whole_number(int(value), where)
    if isinstance(value, float):
        return checks.whole_number(int(checks.number(value, where, most=checks.MOST)), where)
    return checks.whole_number(value, where)


def optional_number(value: Any, where: str) -> int | None:
    """The same, or null."""
    return None if value is None else number(value, where)


def text(value: Any, where: str) -> str:
    """A text that is not empty, or a number or a yes or no in its written form."""
    found = optional_text(value, where)
    return checks.text(found, where)


def optional_text(value: Any, where: str) -> str | None:
    """A text, possibly empty, or null."""
    if isinstance(value, (bool, int, float)):
        value = checks.shown(value)
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise FieldError(where, f"is a text of {len(value)} characters", f"at most {LONGEST_TEXT}")
    return checks.optional_text(value, where)


def flag(value: Any, where: str) -> bool:
    """Yes or no; null is no."""
    return value is not None and checks.flag(value, where)


def listed(value: Any, where: str) -> list[Any]:
    """A list of bounded length; null is an empty one."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise FieldError(where, f"{checks.shown(value)} is not a list")
    _check_length(value, where)
    return list(value) if isinstance(value, (list, tuple)) else sorted(value, key=str)


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """A mapping of bounded length; null is an empty one."""
    if value is None:
        return {}
    found = checks.mapping(value, where)
    _check_length(found, where)
    return found


def texts(value: Any, where: str) -> tuple[str, ...]:
    """A list of texts; null is an empty one."""
    return tuple(text(each, f"{where}[{at}]") for at, each in enumerate(listed(value, where)))


def optional_texts(value: Any, where: str) -> tuple[str, ...] | None:
    """A list of texts, or null."""
    return None if value is None else texts(value, where)


def lists_of_texts(value: Any, where: str) -> tuple[tuple[str, ...], ...]:
    """A list of lists of texts."""
    return tuple(texts(each, f"{where}[{at}]") for at, each in enumerate(listed(value, where)))


def text_values(value: Any, where: str) -> dict[str, str]:
    """A mapping from text to text."""
    taken = {name: optional_text(each, f"{where}.{name}") for name, each in mapping(value, where).items()}
    for name, each in taken.items():
        if each is None:
            raise FieldError(f"{where}.{name}", "has no value", "give it one, or leave it out")
    return {name: str(each) for name, each in taken.items()}


def _check_length(value: Any, where: str) -> None:
    if len(value) > MOST_LISTED:
        raise FieldError(where, f"has {len(value)} entries", f"at most {MOST_LISTED}")


def made(kind: type[Record], where: str, **values: Any) -> Record:
    """A record from values that its class checks; errors name the path in the message."""
    try:
        return kind(**values)
    except FieldError as error:
        raise error.under(where) from None


Take = Callable[[Any, str], Any]


def taken(takers: Mapping[str, Take], data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Those of the fields that are there, each by its own taker."""
    return {name: take(data[name], f"{where}.{name}") for name, take in takers.items() if name in data}


def carried(record: Message, data: Mapping[str, Any], where: str) -> Message:
    """The record with what the message says besides; of that only plain values are kept, and lists of such."""
    others = {name: _plain(data[name], f"{where}.{name}") for name in type(record).unheld if name in data}
    return record.received(data, others)


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_scalar(each, f"{where}[{at}]") for at, each in enumerate(listed(value, where))]
    return _scalar(value, where)


def _scalar(value: Any, where: str) -> Any:
    if isinstance(value, (bool, int, float)):
        return checks.plain_data(value, where)
    return optional_text(value, where)


def set_fields(
    record: FromMessage, held: Mapping[str, Any], usual: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What of these fields is sent: those that came in a message, and those that are not as usual.

    A record that came in no message sends all that it has a value for, and the rest as `unheld` says.
    """
    sent, usual = record.sent, usual or {}
    if sent is None:
        others = {name: list(each) if each == () else each for name, each in type(record).unheld.items()}
        return {name: value for name, value in {**held, **others}.items() if value is not None}
    kept = {name: value for name, value in held.items() if name in sent.names or value != usual.get(name)}
    return kept | dict(sent.others)
