# SPDX-License-Identifier: Apache-2.0
"""nova.context: request contexts."""

from roost.plugins.nova_shapes import RequestContext

__all__ = ["RequestContext", "get_admin_context", "get_context"]


def get_admin_context(read_deleted: str = "no") -> RequestContext:
    """A context with administrator rights."""
    return RequestContext(is_admin=True, read_deleted=read_deleted)


def get_context() -> RequestContext:
    """A context without user and project."""
    return RequestContext()
