# SPDX-License-Identifier: Apache-2.0
"""A client of the stream of events."""

import json
from contextlib import contextmanager
from typing import NamedTuple


class Told(NamedTuple):
    """One event as a client sees it."""

    kind: str
    id: str
    data: dict


@contextmanager
def followed(client, last_id=None):
    """Context with an iterator over the events, which begins when the stream does. Their id None: a comment."""
    headers = {**client.headers, **({"Last-Event-ID": last_id} if last_id else {})}
    with client.http.stream("GET", "/roost/v1/events", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _parsed(answer.iter_lines())


MOST_COMMENTS = 10
"""In a row: a stream that only says that it is alive would keep a test waiting for ever."""


def _parsed(lines):
    fields, comments = {}, 0
    for line in lines:
        if line.startswith(":"):
            comments += 1
            assert comments <= MOST_COMMENTS, "the stream goes on without events"
            continue
        comments = 0 if line else comments
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield Told(fields.get("event", ""), fields.get("id"), json.loads(fields.get("data", "null")))
            fields = {}


def first_of(events, kind):
    """The next event of a kind."""
    return next(each for each in events if each.kind == kind)


def about(events, *requests):
    """The decisions about these requests, in the order in which they come; waits for all of them."""
    found = []
    while len(found) < len(requests):
        each = first_of(events, "decision")
        if each.data["request_id"] in requests:
            found.append(each)
    return found
