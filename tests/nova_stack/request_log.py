# SPDX-License-Identifier: Apache-2.0
"""What placement was asked, from its log: one JSON object per request, written by programs/serve.py."""

import json

NOT_SCHEDULERS = ("nova-compute", "nova-api", "nova-conductor", "python-requests")
"""How the User-Agent of others at placement begins; python-requests is the client that deletes claims."""


class RequestLog:
    """Placement's requests from now on."""

    def __init__(self, cloud):
        self._file = cloud.dir / "logs" / "placement.requests"
        self._offset = self._file.stat().st_size if self._file.exists() else 0

    def read(self):
        """All requests since this object was created."""
        with self._file.open() as log:
            log.seek(self._offset)
            return [json.loads(line) for line in log if line.endswith("\n")]


def of_schedulers(entries):
    """The requests that schedulers sent."""
    return [each for each in entries if not (each["from"] or "").startswith(NOT_SCHEDULERS)]


def calls_for(answer, entries):
    """The calls that a scheduler made for an answer of `Asker`.

    They carry its request id. Where a scheduler sends none: calls during the request that name one of its consumers
    or the nodes that it chose.
    """
    if named := [each for each in entries if each["request_id"] == answer["request_id"]]:
        return named
    names, end = (*answer["uuids"], *answer.get("nodes", ())), answer["started"] + answer["seconds"]
    return [
        each
        for each in entries
        if answer["started"] <= each["time"] <= end and any(name in each["url"] + each["body"] for name in names)
    ]


def seconds_inside(entries):
    """How long placement worked on these requests; at a time when it worked on several, that counts once."""
    spans = sorted((each["time"], each["time"] + each["ms"] / 1e3) for each in entries)
    total, end = 0.0, 0.0
    for started, ended in spans:
        total += max(0.0, ended - max(started, end))
        end = max(end, ended)
    return total
