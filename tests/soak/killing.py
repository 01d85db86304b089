# SPDX-License-Identifier: Apache-2.0
"""Processes of a cluster are killed during builds and moves, round after round, and restarted."""

import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.services.crash_points import POINTS
from tests.services.crashing_cluster import CrashingCluster, request_for
from tests.soak.clients import Figures, Progress, no_progress

from roost.records.listing import ServerFilters
from roost.trial.plan import SERVICES

MOVES = ("migrate_server_cold", "live_migrate_server")
MOST_SERVERS = 12


def kill_services(rounds: int, seed: int, progress: Progress = no_progress) -> Figures:
    """In each round one process is killed at a random point, and one at a random moment, during builds and moves."""
    draw, figures = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory(prefix="roost-kills-") as folder:
        Path(folder).chmod(0o755)
        cluster = CrashingCluster(Path(folder), agents=12, processes=3)
        try:
            for number in range(rounds):
                figures.update(run_round(cluster, number, draw))
                progress(number + 1)
        finally:
            cluster.close()
    return dict(figures)


def run_round(cluster: CrashingCluster, number: int, draw: random.Random) -> Figures:
    """Servers are built, moved and deleted while processes die; then all must be well."""
    active = cluster.store.list_page(ServerFilters(vm_states=["active"]))
    chosen = draw.sample(active, k=min(6, len(active)))
    cluster.arm(draw.choice(POINTS))
    for each in range(3):
        request = request_for(f"round-{number}-{each}", draw.choice((1, 1, 3)))
        cluster.try_to("create_servers", request)
    for server in chosen[:4]:
        cluster.try_to(draw.choice(MOVES), server.uuid)
    for server in chosen[4:]:
        cluster.try_to("delete_server", server.uuid)
    time.sleep(draw.uniform(0.0, 0.5))
    cluster.kill(draw.choice([each.name for each in cluster.plan.processes if each.kind in SERVICES]))
    cluster.settle()
    is_reached = not cluster.disarm()
    cluster.confirm_all()
    seen = cluster.check()
    figures = {"rounds": 1, "points_reached": int(is_reached), "servers": sum(seen.values()), **seen}
    for server in cluster.store.list_page()[MOST_SERVERS:]:
        cluster.try_to("delete_server", server.uuid)
    cluster.settle()
    return figures
