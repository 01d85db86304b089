# SPDX-License-Identifier: Apache-2.0
"""Type aliases of the numpy arrays that filters and weighers take and return."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
RowArray = NDArray[np.intp]
