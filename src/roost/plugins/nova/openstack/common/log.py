# SPDX-License-Identifier: Apache-2.0
"""nova.openstack.common.log: loggers of releases up to Juno, with nova's additional level `audit`."""

import logging
from typing import Any

from oslo_log.log import KeywordArgumentAdapter


class ContextAdapter(KeywordArgumentAdapter):
    """A logger that accepts `context=`, `instance=` and any other keyword of a plugin."""

    def audit(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Log at nova's level for operators; here at INFO."""
        self.log(logging.INFO, msg, *args, **kwargs)

    def warn(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """Log a warning; the old name of `warning`."""
        self.log(logging.WARNING, msg, *args, **kwargs)


def getLogger(name: str = "unknown", version: str = "unknown") -> ContextAdapter:  # noqa: N802 - nova's name
    """The logger with this name."""
    return ContextAdapter(logging.getLogger(name), {})
