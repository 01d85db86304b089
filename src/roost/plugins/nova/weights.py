# SPDX-License-Identifier: Apache-2.0
"""nova.weights: the generic base classes of weighers."""

from collections.abc import Iterable

import numpy as np

from roost.plugins.nova_shapes import BaseHostWeigher as BaseWeigher
from roost.weighers.base import WeighedHost as WeighedObject
from roost.weighers.base import normalise

__all__ = ["BaseWeigher", "WeighedObject", "normalize"]


def normalize(weight_list: Iterable[float], minval: float | None = None, maxval: float | None = None) -> list[float]:
    """The numbers, min-max normalised to 0..1. Bounds default to their extremes; all 0.0 if bounds are equal."""
    numbers: list[float] = normalise(np.array(list(weight_list), dtype=np.float64), minval, maxval).tolist()
    return numbers
