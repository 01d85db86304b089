# SPDX-License-Identifier: Apache-2.0
"""Fields of a message that a record does not hold: stored when it is parsed, sent again when it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from roost.model.fields import OPTIONAL_TEXT, PLAIN_DATA, listed
from roost.model.message_fields import FromMessage

Message = TypeVar("Message", bound=FromMessage)


def store_unheld(record: Message, data: Mapping[str, Any], where: str) -> Message:
    """Store the fields in `data` that the class lists in `unheld` (scalars, lists of scalars); returns the record."""
    others = {name: _scalars(data[name], f"{where}.{name}") for name in type(record).unheld if name in data}
    return record.received(data, others)


def _scalars(value: Any, where: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_scalar(each, f"{where}[{at}]") for at, each in enumerate(listed(value, where))]
    return _scalar(value, where)


def _scalar(value: Any, where: str) -> Any:
    is_number = isinstance(value, (bool, int, float))
    return PLAIN_DATA.strict(value, where) if is_number else OPTIONAL_TEXT.lenient(value, where)


def fields_to_send(
    record: FromMessage, held: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fields of the object that is sent for a record.

    `held`: fields that the record holds; `defaults`: their defaults. A record that was parsed from a message sends
    the fields of the message, fields that are not at their default, and stored unheld fields. Any other record sends
    all fields that have a value, and the defaults of unheld ones.
    """
    sent, defaults = record.sent, defaults or {}
    if sent is None:
        others = {name: list(each) if each == () else each for name, each in type(record).unheld.items()}
        return {name: value for name, value in {**held, **others}.items() if value is not None}
    kept = {name: value for name, value in held.items() if name in sent.names or value != defaults.get(name)}
    return kept | dict(sent.others)
