# SPDX-License-Identifier: Apache-2.0
"""nova.db: database queries of plugins up to Juno."""

from roost.plugins.database import aggregate_get_by_host, aggregate_metadata_get_by_host

__all__ = ["aggregate_get_by_host", "aggregate_metadata_get_by_host"]
