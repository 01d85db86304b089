# SPDX-License-Identifier: Apache-2.0
"""Placement and a cell's database fail and come back: what callers, the log and /readyz say.

nova-scheduler is put through the same faults first: Roost must answer, or raise what nova-scheduler raises.
"""

import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import NamedTuple

from tests.interop.checks import print_table, tell
from tests.interop.nova_cloud import running_cloud, running_roost
from tests.interop.tcp_proxy import TcpProxy
from tests.nova_cloud.placement.fault_proxy import Fault, FaultProxy, conflict
from tests.nova_stack.asking import Asker, request

COMPUTES, REQUESTS = 4, 2
FOREVER = 10**9
METHODS = ("GET", "POST", "PUT", "DELETE")
STEADY_SECONDS, NOTICE_SECONDS, RECOVER_SECONDS, SLOW_SECONDS, ANSWER_SECONDS = 10, 90, 45, 2, 120
"""/readyz may say after a minute that placement is away."""
NO_ROOM = conflict("placement.undefined_code", "would exceed the capacity")
ANSWERED = "a host"
AGAIN = "tried again"
"""Not the word of a recovery."""
HEADINGS = ("fault", "nova-scheduler", "Roost", "Roost's longest answer, s", "lines in Roost's log")


class Trouble(NamedTuple):
    """Something that fails, how to begin and end it, and what is expected meanwhile."""

    name: str
    begin: Callable[[], object]
    end: Callable[[], object]
    ready_word: str = ""
    """What /readyz must name, with 503; empty: it must stay 200."""
    is_logged: bool = True
    """A line of its own in the log; not where a request deals with it."""


def run(checks, folder):
    """Each fault in turn, first with nova-scheduler, then with Roost."""
    with running_cloud(folder, computes=COMPUTES) as cloud:
        placement = FaultProxy(int(cloud.env["placement"].rpartition(":")[2]))
        database = int(cloud.env["databases"]["nova_cell1"].rpartition(":")[2].partition("/")[0])
        cell, other_cell = TcpProxy(database), TcpProxy(database)
        lead_cells_through(cloud, cell, other_cell)
        troubles = [*placement_troubles(placement), *cell_troubles(cell, other_cell)]
        behind = f"[placement]\nendpoint = http://127.0.0.1:{placement.port}\n"
        with Asker(cloud, answer_seconds=ANSWER_SECONDS) as asker:
            with running_nova(cloud, behind):
                expected = {each.name: ask_during(each, asker) for each in troubles}
            with running_roost(cloud, more=behind) as roost:
                rows = [suffer(checks, roost, asker, each, expected[each.name][0]) for each in troubles]
        placement.close()
    print_table("faults", HEADINGS, rows)


def lead_cells_through(cloud, cell, other_cell):
    """Put proxies before the database of cell1, and before that of a second cell, which has no hosts."""
    databases = cloud.env["databases"]
    port = databases["nova_cell1"].rpartition(":")[2].partition("/")[0]
    address = databases["nova_cell1"].replace(port, str(cell.port))
    cloud.rows("nova_api", "update cell_mappings set database_connection = :it where name = 'cell1'", it=address)
    cloud.rows(
        "nova_api",
        "insert into cell_mappings (created_at, uuid, name, transport_url, database_connection, disabled)"
        " values (utc_timestamp(), uuid(), 'cell2', :transport, :it, 0)",
        transport=cloud.env["transport_url"],
        it=databases["nova_cell0"].replace(port, str(other_cell.port)),
    )


@contextmanager
def running_nova(cloud, extra):
    cloud.add_nova_scheduler(extra=extra)
    try:
        yield
    finally:
        cloud.end_process("nova-scheduler")


def placement_troubles(proxy):
    """What placement can do to its callers."""

    def fault(name, ready_word="", is_logged=True, methods=METHODS, path="/", times=FOREVER, **more):
        def begin():
            proxy.faults[:] = [Fault(method, path, times, **more) for method in methods]

        return Trouble(f"placement: {name}", begin, proxy.faults.clear, ready_word, is_logged)

    own = {"ready_word": "placement", "executes": False}
    claims = {"methods": ("POST", "PUT"), "path": "/allocations", "executes": False, "is_logged": False}
    return [
        fault("down", status=0, **own),
        fault("500", status=500, body=b"{}", executes=False),
        fault("503", status=503, body=b"{}", **own),
        fault("slow", before=lambda: time.sleep(SLOW_SECONDS), is_logged=False),
        fault("409 once", status=409, body=NO_ROOM, times=1, **claims),
        fault("409 always", status=409, body=NO_ROOM, **claims),
        fault("401 once", status=401, body=b"{}", times=1, executes=False, is_logged=False),
    ]


def cell_troubles(cell, other_cell):
    """What the database of a cell can do."""
    both = (cell, other_cell)
    return [
        Trouble("a cell without hosts: database down", other_cell.down, other_cell.up),
        Trouble("the only cell with hosts: database down", cell.down, cell.up),
        Trouble(
            "all cells: database down",
            lambda: [each.down() for each in both],
            lambda: [each.up() for each in both],
            "the fleet cannot be read",
        ),
    ]


def ask_during(trouble, asker):
    """What requests get meanwhile, and the seconds that the longest takes."""
    tell(trouble.name)
    trouble.begin()
    try:
        answers = asker.ask([request() for _ in range(REQUESTS)])
    finally:
        trouble.end()
    wait_until(lambda: outcome(asker.ask([request()])) == ANSWERED, RECOVER_SECONDS)
    return outcome(answers), max(answer["seconds"] for answer in answers)


def outcome(answers):
    return ", ".join(sorted({answer.get("error", ANSWERED) for answer in answers}))


def suffer(checks, roost, asker, trouble, expected):
    """Let Roost go through it, and judge: a row of the table."""
    tell(trouble.name)
    known = len(roost.log.read_text())
    trouble.begin()
    try:
        see_readiness(checks, roost, trouble)
        answers = asker.ask([request() for _ in range(REQUESTS)])
    finally:
        trouble.end()
    found, seconds = outcome(answers), max(answer["seconds"] for answer in answers)
    checks.see(f"{trouble.name}: answered, or raised as nova does", found in (ANSWERED, expected), found)
    lines = problems_in(roost.log.read_text()[known:])
    if trouble.is_logged:
        checks.see(f"{trouble.name}: one clear line in the log", len(lines) == 1, lines[:3] or "none")
    else:
        checks.see(f"{trouble.name}: at most one line in the log", len(lines) <= 1, lines[:3] or "")
    see_recovery(checks, roost, asker, trouble, known)
    return trouble.name, expected, found, seconds, len(lines)


def see_recovery(checks, roost, asker, trouble, known):
    """After it: requests, readiness, and a line in the log, which has all that is new from `known` on."""
    is_back = wait_until(lambda: outcome(asker.ask([request()])) == ANSWERED, RECOVER_SECONDS)
    checks.see(f"{trouble.name}: requests are answered when it is over", is_back)
    is_ready = wait_until(lambda: roost.get("/readyz")[0] == 200, RECOVER_SECONDS)
    checks.see(f"{trouble.name}: ready when it is over", is_ready, "" if is_ready else roost.get("/readyz")[1])
    if trouble.is_logged:
        is_said = wait_until(lambda: " again" in roost.log.read_text()[known:].replace(AGAIN, ""), RECOVER_SECONDS)
        checks.see(f"{trouble.name}: the log says that it is over", is_said)


def see_readiness(checks, roost, trouble):
    """While it lasts: 503 with a line that names it, or 200 all the time."""
    if trouble.ready_word:
        is_right = wait_until(lambda: says(roost, trouble.ready_word), NOTICE_SECONDS)
        what = f"{trouble.name}: /readyz says 503 and names {trouble.ready_word}"
    else:
        is_right = not wait_until(lambda: roost.get("/readyz")[0] != 200, STEADY_SECONDS)
        what = f"{trouble.name}: /readyz stays 200"
    checks.see(what, is_right, "" if is_right else roost.get("/readyz"))


def says(roost, word):
    status, text = roost.get("/readyz")
    return status == 503 and word in text


def problems_in(text):
    """Lines of level WARNING and above, but for those about a single request."""
    levels = (" WARNING ", " ERROR ", " CRITICAL ")
    return [line for line in text.splitlines() if any(each in line for each in levels) and "[req-" not in line]


def wait_until(check, seconds):
    """Whether it became true in time."""
    give_up = time.monotonic() + seconds
    while not (is_true := check()) and time.monotonic() < give_up:
        time.sleep(0.2)
    return is_true
