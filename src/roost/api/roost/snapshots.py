# SPDX-License-Identifier: Apache-2.0
"""A snapshot of the whole cloud, as `roost snapshot save` writes it."""

from __future__ import annotations

from fastapi import Response

from roost.api.call import Call, CurrentCall
from roost.records.snapshot_taking import take_snapshot
from roost.sources.snapshot import Snapshot, deciding_options

MEDIA = "application/gzip"


def save(call: CurrentCall) -> Response:
    """All that is known of the cloud at this moment: the content of a file for `roost ... --from FILE`."""
    with call.parts.fleet_work.share():
        content = snapshot_for(call).to_bytes()
    return Response(
        content, media_type=MEDIA, headers={"Content-Disposition": 'attachment; filename="snapshot.roost"'}
    )


def snapshot_for(call: Call) -> Snapshot:
    """The cloud as it is now."""
    parts = call.parts
    return take_snapshot(parts.engine, parts.servers.times, deciding_options(parts.settings))
