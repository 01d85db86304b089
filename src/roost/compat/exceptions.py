# SPDX-License-Identifier: Apache-2.0
"""The errors of nova that plugins raise or catch: message templates, filled from keywords."""

from __future__ import annotations

from typing import Any


class NovaException(Exception):
    """Base of nova's errors. The message is `msg_fmt` filled from the keywords, unless `message` is given."""

    msg_fmt = "an error without a text"
    code = 500

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        self.kwargs = {"code": self.code, **kwargs}
        try:
            text = message or self.msg_fmt % kwargs
        except (KeyError, TypeError, ValueError):
            text = self.msg_fmt  # unfilled: formatting must not hide the original error
        self.message = text
        super().__init__(text)

    def format_message(self) -> str:
        """The message."""
        return str(self.args[0])


class Invalid(NovaException):
    """Input is invalid."""

    msg_fmt = "not valid"
    code = 400


class NotFound(NovaException):
    """Something does not exist."""

    msg_fmt = "not found"
    code = 404


class NoValidHost(NovaException):
    """No host fits."""

    msg_fmt = "No valid host was found. %(reason)s"


class ComputeHostMetricNotFound(NotFound):
    """A host does not report a metric."""

    msg_fmt = "host %(host)s, node %(node)s reports no metric %(name)s"


class AggregateNotFound(NotFound):
    """There is no such aggregate."""

    msg_fmt = "there is no aggregate %(aggregate_id)s"


class HostNotFound(NotFound):
    """There is no such host."""

    msg_fmt = "there is no host %(host)s"


class ComputeHostNotFound(HostNotFound):
    """There is no compute service on such a host."""

    msg_fmt = "there is no compute service on host %(host)s"


class InstanceNotFound(NotFound):
    """There is no such instance."""

    msg_fmt = "there is no instance %(instance_id)s"


class InstanceGroupNotFound(NotFound):
    """There is no such server group."""

    msg_fmt = "there is no server group %(group_uuid)s"


class ServiceNotFound(NotFound):
    """There is no such service."""

    msg_fmt = "there is no service %(service_id)s"
