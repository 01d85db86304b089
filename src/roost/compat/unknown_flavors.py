# SPDX-License-Identifier: Apache-2.0
"""A warning, once per process, for a plugin that reads extra specs of an instance whose flavor is not known."""

from __future__ import annotations

import logging

LOG = logging.getLogger(__name__)


def warn_once(owner: str) -> None:
    """Log the first read of unknown extra specs in this process; `owner`: the instance and its host."""
    if not _FIRST:
        _FIRST.append(owner)
        LOG.warning(
            "the flavor of instance %s is not known: a plugin that reads its extra specs gets none, and may decide "
            "wrongly; put the flavor into the fleet file (section flavors, with the id that the instance names), or "
            "let the agent of the host send update_instance_info; not logged again for other instances",
            owner,
        )


_FIRST: list[str] = []
"""The instance that was reported; empty until then."""
