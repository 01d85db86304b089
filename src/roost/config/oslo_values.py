# SPDX-License-Identifier: Apache-2.0
"""Conversion and validation of option values with oslo.config, and its errors as short messages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from oslo_config import cfg

from roost.config.files import one_line
from roost.model.kinds import Number, OfType, WholeNumber
from roost.options import Declared

_STRING = OfType((str,), "is no list of texts")
_KINDS: dict[Any, WholeNumber | Number | OfType] = {
    int: WholeNumber(),
    float: Number(),
    bool: OfType((int,), "is neither true nor false", takes_flags=True),
    str: OfType((str, int, float), "is no text", takes_flags=True),
}
"""Type of an option -> check of a value from a mapping; oslo.config checks bounds and converts texts."""
_READ_FROM_TEXT = (int, float, bool)


def oslo_group(option: Declared) -> str | None:
    """The section as oslo.config expects it: None for [DEFAULT]."""
    return None if option.group == "DEFAULT" else option.group


def oslo_option(option: Declared) -> cfg.Opt:
    """The oslo.config declaration of an option."""
    old = [cfg.DeprecatedOpt(name, group=group) for group, name in option.old]
    shared: dict[str, Any] = {"default": option.default, "help": option.help, "deprecated_opts": old}
    bounds: dict[str, Any] = {"min": option.min, "max": option.max}
    if option.kind is int:
        return cfg.IntOpt(option.name, **bounds, **shared)
    if option.kind is float:
        return cfg.FloatOpt(option.name, **bounds, **shared)
    if option.kind is bool:
        return cfg.BoolOpt(option.name, **shared)
    if option.kind == tuple[str, ...]:
        shared["default"] = list(option.default)
        return (cfg.MultiStrOpt if option.repeats else cfg.ListOpt)(option.name, **shared)
    return cfg.StrOpt(option.name, choices=option.choices, **shared)


def value_of(conf: cfg.ConfigOpts, option: Declared) -> tuple[Any, str, str]:
    """(value, problem, hint) of an option; the value is None where the problem is not empty."""
    try:
        with _without_oslo_warnings():
            value = conf[option.name] if option.group == "DEFAULT" else conf[option.group][option.name]
    except cfg.NoSuchOptError as error:  # the option is registered: its value refers to one that is not
        return None, problem_of(option, error.__context__ or error), ""
    except (cfg.Error, ValueError) as error:
        return None, problem_of(option, error), ""
    if isinstance(value, float) and not math.isfinite(value):
        return None, _KINDS[float].mismatch, "write a finite one"
    if value is None and option.kind in _READ_FROM_TEXT and option.default is not None:
        return None, "has no value", ""
    return tuple(cast(list[str], value)) if isinstance(value, list) else value, "", ""


def set_value(setter: Any, option: Declared, value: Any) -> str:
    """Set a value of a mapping with `setter`, conf.set_default or conf.set_override. Returns the problem, or ''."""
    if problem := _wrong_kind(option.kind, value):
        return problem
    if option.repeats and isinstance(value, str):
        value = [value]
    if option.kind is bool:
        value = str(value)
    try:
        setter(option.name, value, group=oslo_group(option))
    except (ValueError, TypeError) as error:
        return problem_of(option, error)
    return ""


def _wrong_kind(kind: Any, value: Any) -> str:
    """The problem with the type of a value from a mapping; empty where there is none."""
    if value is None:
        return "has no value"
    if isinstance(value, str) and kind in _READ_FROM_TEXT:
        return ""
    if kind == tuple[str, ...]:
        listed = value if isinstance(value, (list, tuple)) else [value]
        return "" if all(map(_STRING.matches, listed)) else _STRING.mismatch
    wanted = _KINDS.get(kind, _KINDS[str])
    return "" if wanted.matches(value) else wanted.mismatch


def problem_of(option: Declared, error: BaseException) -> str:
    """One line that says why oslo.config rejected a value."""
    text = one_line(error).rpartition("is not valid: ")[2]
    is_conversion = text.startswith(("invalid literal", "could not convert", "Unexpected boolean", "cannot convert"))
    if is_conversion:
        return _KINDS[option.kind].mismatch if option.kind in _READ_FROM_TEXT else text
    return f"{text[:1].lower()}{text[1:]}"


@contextmanager
def _without_oslo_warnings() -> Iterator[None]:
    """Disable the warnings of oslo.config: the loader reports deprecated names, with their file."""
    was_disabled, cfg.LOG.disabled = cfg.LOG.disabled, True
    try:
        yield
    finally:
        cfg.LOG.disabled = was_disabled
