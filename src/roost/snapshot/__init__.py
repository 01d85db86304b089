# SPDX-License-Identifier: Apache-2.0
"""Snapshots: a cloud at one moment, in one compressed file that gives the same answers on another machine.

| module | what it holds |
| --- | --- |
| `snapshot.py` | a snapshot: fleet, options, servers, and when and by which version it was taken |
| `file_format.py` | the file: gzip of one JSON object; untrusted files are read within limits |
| `instance_servers.py` | servers of a source that only knows which instances run where |
| `taking.py` | takes one of a cloud of Roost's own |
| `options/declare.py` | the options that decide where servers go, as far as data may set them |
"""

from roost.snapshot.file_format import read_snapshot_file
from roost.snapshot.instance_servers import servers_of_instances
from roost.snapshot.options import OWN_PLUGIN_HINT, deciding_options, with_own_weighers
from roost.snapshot.snapshot import Snapshot
from roost.snapshot.taking import take_snapshot

__all__ = [
    "OWN_PLUGIN_HINT",
    "Snapshot",
    "deciding_options",
    "read_snapshot_file",
    "servers_of_instances",
    "take_snapshot",
    "with_own_weighers",
]
