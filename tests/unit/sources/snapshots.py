# SPDX-License-Identifier: Apache-2.0
"""A small snapshot, and files that are nearly one."""

import datetime
import gzip
import json

from roost.scheduler.all_options import read_options
from roost.sources.snapshot import Snapshot, deciding_options

NOW = datetime.datetime(2026, 11, 15, 12, 0, tzinfo=datetime.UTC)
UUID = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01"
FLEET = {
    "hosts": [
        {"host": "a", "vcpus_total": 8, "total_usable_ram_mb": 16384, "total_usable_disk_gb": 100},
        {"host": "b", "vcpus_total": 8, "total_usable_ram_mb": 8192, "total_usable_disk_gb": 100,
         "instances": [{"uuid": UUID, "resources": {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}}],
         "service": {"seconds_since_seen": 3.5}},
    ],
    "aggregates": [{"name": "north", "hosts": ["a"], "metadata": {"availability_zone": "north"}}],
    "flavors": [{"name": "small", "id": 1, "vcpus": 2, "memory_mb": 2048, "root_gb": 20}],
    "images": [{"name": "debian", "id": "image-1"}],
    "server_groups": [{"name": "apart", "policy": "anti-affinity", "members": [UUID]}],
}  # fmt: skip
SERVER = {
    "id": UUID, "name": "web", "status": "ERROR", "host": "b", "node": "b", "project_id": "blue", "task_state": None,
    "flavor": {"name": "small"}, "fault": {"message": "no luck"},
    "migrations": [{"uuid": "m", "source_compute": "a", "dest_compute": "b"}],
}  # fmt: skip


def snapshot(fleet=FLEET, servers=(SERVER,), options=None, source="snapshot"):
    return Snapshot(NOW, deciding_options(read_options(explicit=options or {})), fleet, list(servers), source=source)


def packed(**changes):
    """The content of a file that is a snapshot, but for these keys; None takes one away."""
    document = {**json.loads(gzip.decompress(snapshot().to_bytes())), **changes}
    kept = {name: value for name, value in document.items() if value is not None}
    return gzip.compress(json.dumps(kept).encode())
