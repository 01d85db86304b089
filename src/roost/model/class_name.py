# SPDX-License-Identifier: Apache-2.0
"""The name of filters and weighers: that of the class, unless it or a base class sets another."""

from __future__ import annotations

from itertools import takewhile
from typing import Any, ClassVar


class NamedByClass:
    """Base of classes whose `name` is the name of the class where neither it nor a base class of a plugin sets one.

    `name` is a plain class attribute, since it is read for every rule of every request. So that a subclass does not
    inherit the name of its base class, each class gets its own when it is defined.
    """

    name: str
    """Its name in configuration, decisions and logs: the name of the class, unless the class sets another."""
    _is_named_by_class: ClassVar[bool] = True

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        bases = takewhile(lambda each: each is not NamedByClass, cls.__mro__)
        given = [vars(each) for each in bases if "name" in vars(each) and "_is_named_by_class" not in vars(each)]
        if given:
            cls.name = given[0]["name"]  # may be a property
        else:
            cls.name, cls._is_named_by_class = cls.__name__, True
