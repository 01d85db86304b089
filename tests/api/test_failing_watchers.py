# SPDX-License-Identifier: Apache-2.0
"""D23: whatever a watcher raises, a server that is asked for over the API runs."""

import pytest
from tests.api.event_stream import first_of, followed
from tests.api.servers import new_server
from tests.failing_watchers import EVERYWHERE, failing

from roost.api.roost import events as event_feed
from roost.api.roost.events import EventLog

# Gauges are set once a second, by no request.
WATCHERS = (*sorted({*EVERYWHERE} - {"gauge"}), "state of the table", "encoding of a decision", "line of the API")


@pytest.mark.parametrize("watcher", WATCHERS)
def test_a_server_runs(cloud, member, watcher):
    with failing(watcher) as failure:
        server = new_server(member)
        assert server["status"] == "ACTIVE"
        assert member.get(f"/servers/{server['id']}").status_code == 200
        assert member.get("/servers/none").status_code == 404
        assert member.delete(f"/servers/{server['id']}").status_code == 204
    assert failure.hits
    assert failure.swallowed >= 1


def test_a_stream_of_events_goes_on_when_they_can_be_read_again(cloud, admin, member, monkeypatch):
    read, failures = EventLog.read, []

    def fail_twice(log, *args):
        if len(failures) < 2:
            failures.append(args)
            raise RuntimeError("the watcher is broken")
        return read(log, *args)

    monkeypatch.setattr(EventLog, "read", fail_twice)
    monkeypatch.setattr(event_feed, "POLL_SECONDS", 0.01)
    with followed(admin) as events:
        assert new_server(member)["status"] == "ACTIVE"
        assert first_of(events, "decision").data["placed"]
    assert len(failures) == 2
