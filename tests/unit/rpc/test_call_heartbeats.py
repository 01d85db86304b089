# SPDX-License-Identifier: Apache-2.0
"""D23: a heartbeat that cannot be sent costs no other caller its own."""

import threading
from types import SimpleNamespace

from roost.clock import SystemClock
from roost.rpc.call_heartbeats import CallHeartbeats


class QuickClock(SystemClock):
    """A thousand times as fast."""

    def monotonic(self):
        return 1000 * super().monotonic()

    def wait(self, event, seconds):
        return super().wait(event, seconds / 1000)


def test_whatever_one_caller_s_heartbeat_raises_the_others_get_theirs():
    broken, told = threading.Event(), threading.Event()

    def fail():
        broken.set()
        raise AttributeError("the connection is half closed")

    heartbeats = CallHeartbeats(QuickClock())
    first = SimpleNamespace(client_timeout=2, heartbeat=fail)
    second = SimpleNamespace(client_timeout=4, heartbeat=lambda: broken.is_set() and told.set())
    with heartbeats.while_running(first), heartbeats.while_running(second):
        assert told.wait(20)
    heartbeats.stop()
