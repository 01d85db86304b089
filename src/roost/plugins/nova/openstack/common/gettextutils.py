# SPDX-License-Identifier: Apache-2.0
"""nova.openstack.common.gettextutils: texts stay as they are written."""


def _(text: str) -> str:
    return text


_LI = _LW = _LE = _LC = _
