# SPDX-License-Identifier: Apache-2.0
"""nova.openstack.common.log: loggers of up to Juno, with the level that nova had for what operators must see."""

import logging
from typing import Any

from oslo_log.log import KeywordArgumentAdapter


class ContextAdapter(KeywordArgumentAdapter):
    """Takes `context=`, `instance=` and whatever else plugins hand over with a message."""

    def audit(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """For operators: counts as information here."""
        self.log(logging.INFO, msg, *args, **kwargs)

    def warn(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """The older name of `warning`."""
        self.log(logging.WARNING, msg, *args, **kwargs)


def getLogger(name: str = "unknown", version: str = "unknown") -> ContextAdapter:  # noqa: N802 - its name
    """The logger of that name."""
    return ContextAdapter(logging.getLogger(name), {})
