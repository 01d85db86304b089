# SPDX-License-Identifier: Apache-2.0
"""A combinator that mixes rare values, such as invalid ones, into common ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st


def rarely(odd: st.SearchStrategy[Any], else_: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of `odd` about one time in ten, otherwise values of `else_`."""
    return st.sampled_from(range(10)).flatmap(lambda digit: odd if digit == 9 else else_)
