# SPDX-License-Identifier: Apache-2.0
"""nova.context: on whose behalf something is asked."""

from roost.compat.request_shapes import RequestContext

__all__ = ["RequestContext", "get_admin_context", "get_context"]


def get_admin_context(read_deleted: str = "no") -> RequestContext:
    """A context that may do everything."""
    return RequestContext(is_admin=True, read_deleted=read_deleted)


def get_context() -> RequestContext:
    """A context of nobody in particular."""
    return RequestContext()
