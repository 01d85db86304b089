# SPDX-License-Identifier: Apache-2.0
"""nova's own client asks two Roost schedulers that have a fleet and a ledger of their own.

A private RabbitMQ and PostgreSQL, two `roost service scheduler` processes, an imported fleet, and nova from PyPI in
an environment of its own.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from conformance.nova_env import ensure_nova
from tests.nova_stack.processes import NOVA_ENV
from tests.rpc.broker import RabbitMQ
from tests.services.stack import Stack, small_fleet
from tests.store.servers import PostgreSQL

CLIENT = Path(__file__).with_name("nova_client.py")
HEARD_SECONDS = 10


def run_client(checks, folder):
    """Choose, fail and take casts, asked by nova's client."""
    python = ensure_nova(NOVA_ENV)
    broker, database = RabbitMQ(), PostgreSQL()
    stack = Stack(folder, broker.address(), database.create_database("interop"), small_fleet(10), exchange="nova")
    try:
        stack.add_schedulers(2)
        judge(checks, stack, ask_nova(python, folder, broker))
    finally:
        stack.close()
        broker.stop()
        database.stop()


def ask_nova(python, folder, broker):
    config = folder / "nova.conf"
    # nova's programs set this exchange before they read a file; a client alone has to say so.
    config.write_text(f"[DEFAULT]\ntransport_url = {broker.address()}\ncontrol_exchange = nova\n")
    done = subprocess.run(
        [str(python), "-W", "ignore", str(CLIENT), str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode:
        sys.exit(f"nova's client failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def judge(checks, stack, report):
    chosen, fleet = report["chosen"], {f"cn{number:05}" for number in range(10)}
    hosts = [[each["host"] for each in selections] for selections in chosen["selections"]]
    checks.see(f"nova {report['nova']} got Selection objects for 2 instances", len(hosts) == 2, chosen["class"])
    checks.see("each with two alternates", [len(each) for each in hosts] == [3, 3], hosts)
    checks.see("all of the fleet", all(set(each) <= fleet for each in hosts))
    first = chosen["selections"][0][0]
    wanted = {first["node_uuid"]: {"resources": {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}}}
    checks.see("the allocation is what was asked for", first["allocation"]["allocations"] == wanted, wanted)
    checks.see("a zone and a cell", first["zone"] == "nova" and len(first["cell_uuid"]) == 36)
    checks.see("the form of before 4.5", set(report["dicts"][0]) == {"host", "nodename", "limits"}, report["dicts"])
    too_much = report["too_much"]
    checks.see("an impossible request raises nova's own NoValidHost", is_novas(too_much), too_much)
    audit = stack.audit()
    checks.see("the ledger audits clean", not audit["findings"])
    checks.see("the casts were taken by both schedulers", wait_for_casts(stack))


def is_novas(raised):
    return (
        raised["class"] == "nova.exception_Remote.NoValidHost_Remote"  # oslo.messaging's subclass of it
        and raised["said"].splitlines()[0] == "No valid host was found. There are not enough hosts available."
        and raised.get("reason") == "There are not enough hosts available."
    )


def wait_for_casts(stack):
    """Each scheduler counts every cast as handled, and none as an error."""
    casts = ("update_aggregates", "update_instance_info", "delete_instance_info", "sync_instance_info")
    lines = [f'roost_rpc_requests_total{{method="{name}",result="ok"}} 1.0' for name in casts]
    give_up = time.monotonic() + HEARD_SECONDS
    while time.monotonic() < give_up:
        told = [scheduler.get("/metrics")[1] for scheduler in stack.schedulers]
        if all(line in each for line in lines for each in told):
            return True
        time.sleep(0.2)
    return False
