# SPDX-License-Identifier: Apache-2.0
"""Names for the array types that filters and weighers pass around."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
RowArray = NDArray[np.intp]
