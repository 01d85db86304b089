# SPDX-License-Identifier: Apache-2.0
"""nova.scheduler.filters.extra_specs_ops: requirement expressions."""

from typing import Any

from roost.errors import RuleError
from roost.filters import extra_specs_ops


def match(value: Any, req: str) -> bool:
    """Whether a value satisfies a requirement; IndexError or ValueError, as in nova, if it cannot be compared."""
    try:
        return extra_specs_ops.match(value, req)
    except RuleError as error:
        raise {"IndexError": IndexError}.get(error.nova_type, ValueError)(error.message) from None
