# SPDX-License-Identifier: Apache-2.0
"""nova.i18n: texts stay as they are written."""


def _(text: str) -> str:
    return text


_LI = _LW = _LE = _LC = _
