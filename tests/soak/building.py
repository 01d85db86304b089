# SPDX-License-Identifier: Apache-2.0
"""Servers are created and deleted by several clients while agents fail some builds: every one ends with a reason.

Conductor, scheduler and all agents are in one process; the database may be any.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from tests.flow.one_process_cloud import OneProcessCloud
from tests.soak.clients import Figures, Progress

from roost.clock import SystemClock
from roost.ledger.audit import audit
from roost.messages.in_process import InProcessTransport
from roost.store.schema.fleet import inventories

FLAVORS = (
    {"name": "small", "vcpus": 1, "memory_mb": 1024, "root_gb": 5},
    {"name": "large", "vcpus": 4, "memory_mb": 8192, "root_gb": 20},
)
OPTIONS = {
    "roost_fake": {"build_failure_rate": 0.05},
    "DEFAULT": {"compute_driver": "fake"},
}
HELD_PER_CLIENT = 40
"""Servers that a client keeps before it deletes one for each new one."""
LONGEST_BUILD_SECONDS = 120.0


def build_and_delete(
    address: str, servers: int, clients: int, agents: int, seed: int, progress: Progress = lambda done: None
) -> Figures:
    """Create so many servers in all, delete them again, and check all that was promised; AssertionError if not."""
    watched = WatchedTransport()
    with OneProcessCloud(address, agents, OPTIONS, seed, transport=watched) as cloud:
        shares = [servers // clients + (number < servers % clients) for number in range(clients)]
        lives = [Life(cloud, random.Random(f"{seed} {number}"), share) for number, share in enumerate(shares)]
        for life in lives:
            life.start()
        while any(life.is_alive() for life in lives):
            progress(sum(life.ended.total() for life in lives))
            time.sleep(0.05)
        for life in lives:
            if life.failure:
                raise life.failure
        ended: Counter[str] = sum((life.ended for life in lives), Counter())
        cloud.settle(LONGEST_BUILD_SECONDS)
        check_hosts(cloud)
        kept = {each.uuid for each in cloud.store.list_page(limit=None)}
        assert not kept, f"{len(kept)} servers are left after all were deleted"
        assert not cloud.guests(), f"{len(cloud.guests())} guests run, and there is no server"
    assert not watched.skipped_alternates, watched.skipped_alternates[:3]
    return {"servers": servers, "active": ended["ACTIVE"], "error": ended["ERROR"], "retries": watched.retries}


def check_hosts(cloud: OneProcessCloud) -> None:
    """No findings of the audit, and no host over its limits."""
    findings = audit(cloud.engine, SystemClock().now(), grace_seconds=0.0)
    assert not findings, findings[:3]
    with cloud.engine.connect() as connection:
        for row in connection.execute(select(inventories)):
            limit = (row.total - row.reserved) * row.allocation_ratio
            assert row.used <= limit, f"node {row.node_id}: {row.used} of {limit} {row.resource_class}"


class WatchedTransport(InProcessTransport):
    """Looks at what conductors ask schedulers: after a failed build, each alternate comes before a fresh choice."""

    def __init__(self) -> None:
        super().__init__()
        self.retries = 0
        self.skipped_alternates: list[str] = []
        """Servers for which another host was asked for while an alternate was left."""
        self._alternates: dict[str, list[str]] = {}

    def call(self, topic: str, method: str, version: str, args: Mapping[str, Any], *more: Any) -> Any:
        is_choice = method == "select_destinations"
        if is_choice and (asked := args["spec_obj"]["nova_object.data"]).get("retry") is not None:
            self._note_retry(args["instance_uuids"], asked.get("requested_destination"))
        answer = super().call(topic, method, version, args, *more)
        if is_choice:
            for uuid, (_, *alternates) in zip(args["instance_uuids"], answer, strict=True):
                if alternates:
                    self._alternates[uuid] = [each["nova_object.data"]["service_host"] for each in alternates]
        return answer

    def _note_retry(self, uuids: Sequence[str], destination: Mapping[str, Any] | None) -> None:
        """The next alternate was asked for, which may refuse: it is full by now. Or a fresh choice."""
        self.retries += 1
        (uuid,) = uuids
        left = self._alternates.get(uuid, [])
        if left and (destination is None or destination["nova_object.data"]["host"] != left.pop(0)):
            self.skipped_alternates.append(uuid)


class Life(threading.Thread):
    """A client that creates servers, waits for them, and deletes the oldest."""

    def __init__(self, cloud: OneProcessCloud, randomness: random.Random, servers: int) -> None:
        super().__init__(daemon=True)
        self._cloud, self._random, self._servers = cloud, randomness, servers
        self._held: list[str] = []
        self.ended: Counter[str] = Counter()
        """API status -> servers that ended in it."""
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while self.ended.total() < self._servers:
                self._create()
                while len(self._held) > HELD_PER_CLIENT:
                    self._remove(self._held.pop(self._random.randrange(len(self._held))))
            for uuid in self._held:
                self._remove(uuid)
        except BaseException as error:
            self.failure = error

    def _create(self) -> None:
        count = min(self._random.choice((1, 1, 1, 2, 3)), self._servers - self.ended.total())
        request = {"name": "soak", "flavor": self._random.choice(FLAVORS), "count": count}
        created = self._cloud.call("create_servers", request=request)["servers"]
        for each in created:
            self._check(self._cloud.wait_for(each["id"], LONGEST_BUILD_SECONDS))

    def _check(self, server: dict) -> None:
        status = server["status"]
        assert status in ("ACTIVE", "ERROR"), server
        assert status != "ERROR" or server["fault"]["message"], server
        self.ended[status] += 1
        self._held.append(server["id"])

    def _remove(self, uuid: str) -> None:
        self._cloud.call("delete_server", server=uuid)
