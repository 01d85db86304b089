# SPDX-License-Identifier: Apache-2.0
"""Fields of a message that a record does not hold: kept on the way in, and sent again on the way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from roost.model.message_fields import FromMessage
from roost.validation.containers import listed
from roost.validation.vocabulary import OPTIONAL_TEXT, PLAIN_DATA

Message = TypeVar("Message", bound=FromMessage)


def keep_unheld(record: Message, data: Mapping[str, Any], where: str) -> Message:
    """The record, with those fields of the message that its class lists as `unheld`: scalars, and lists of them."""
    others = {name: _plain(data[name], f"{where}.{name}") for name in type(record).unheld if name in data}
    return record.received(data, others)


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_scalar(each, f"{where}[{at}]") for at, each in enumerate(listed(value, where))]
    return _scalar(value, where)


def _scalar(value: Any, where: str) -> Any:
    is_number = isinstance(value, (bool, int, float))
    return PLAIN_DATA.strict(value, where) if is_number else OPTIONAL_TEXT.lenient(value, where)


def fields_to_send(
    record: FromMessage, held: Mapping[str, Any], usual: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Of the fields that the record holds those that came in its message or are not as usual, and its unheld ones.

    A record that came in no message sends all that it has a value for, and the rest as `unheld` says.
    """
    sent, usual = record.sent, usual or {}
    if sent is None:
        others = {name: list(each) if each == () else each for name, each in type(record).unheld.items()}
        return {name: value for name, value in {**held, **others}.items() if value is not None}
    kept = {name: value for name, value in held.items() if name in sent.names or value != usual.get(name)}
    return kept | dict(sent.others)
