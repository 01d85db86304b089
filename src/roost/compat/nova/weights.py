# SPDX-License-Identifier: Apache-2.0
"""nova.weights: weighing, whatever is weighed."""

from collections.abc import Iterable

import numpy as np

from roost.compat.base_classes import BaseHostWeigher as BaseWeigher
from roost.weighers.base import WeighedHost as WeighedObject
from roost.weighers.base import normalise

__all__ = ["BaseWeigher", "WeighedObject", "normalize"]


def normalize(weight_list: Iterable[float], minval: float | None = None, maxval: float | None = None) -> list[float]:
    """Numbers spread over 0 to 1 between the bounds, by default their own extremes; all 0 without a spread."""
    numbers: list[float] = normalise(np.array(list(weight_list), dtype=np.float64), minval, maxval).tolist()
    return numbers
