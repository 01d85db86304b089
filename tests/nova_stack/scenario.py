# SPDX-License-Identifier: Apache-2.0
"""The fixed scenario: everything for which nova asks a scheduler.

Each step creates its servers, checks, audits and cleans up.
The same run with another scheduler must print the same words in the column `result`.
"""

import concurrent.futures
import time
import traceback

from tests.nova_stack.api_client import Nova, host
from tests.nova_stack.audit import settled
from tests.nova_stack.cloud import SIZES
from tests.nova_stack.processes import wait_for

STEPS = {}


def step(function):
    STEPS[function.__name__] = function
    return function


class World:
    """What every step needs: the cloud, a client, flavors, and the servers to clean up."""

    def __init__(self, cloud):
        self.cloud, self.nova, self.made = cloud, Nova(cloud), []
        self.small, self.big, self.huge = (self.nova.flavor(size) for size in ("1,512,1", "2,1024,2", "4096,512,1"))
        self.hosts = cloud.env["hosts"]

    def create(self, name, count=1, flavor=None, status="ACTIVE", **more):
        """Ask for `count` servers in one request and wait until they are built or failed; returns them."""
        self.nova.create(name, flavor or self.small, count=count, **more)
        ids = [s for s, v in self.nova.servers(name).items() if s not in self.made]
        self.made += ids
        servers = [self.nova.wait(s, "ACTIVE", "ERROR") for s in ids]
        check(
            {s["status"] for s in servers} == {status},
            f"{name}: "
            + ", ".join(f"{s['status']} on {host(s)} {s.get('fault', {}).get('message', '')}" for s in servers),
        )
        return servers

    def service(self, name):
        return self.nova.call("GET", f"/os-services?binary=nova-compute&host={name}")["services"][0]

    def set_service(self, name, **what):
        return self.nova.call("PUT", f"/os-services/{self.service(name)['id']}", what)

    def zone(self, name, hosts, **metadata):
        """An aggregate of these hosts: an availability zone, or with metadata."""
        body = {"name": name} if metadata else {"name": name, "availability_zone": name}
        zone = self.nova.call("POST", "/os-aggregates", {"aggregate": body})["aggregate"]["id"]
        for action in [{"add_host": {"host": h}} for h in hosts] + (
            [{"set_metadata": {"metadata": metadata}}] if metadata else []
        ):
            self.nova.call("POST", f"/os-aggregates/{zone}/action", action)

    def clean(self):
        """Delete all servers, then all zones: a host with servers cannot leave its zone."""
        servers, self.made = self.made, []
        self.nova.delete(servers)
        for zone in self.nova.call("GET", "/os-aggregates")["aggregates"]:
            for h in zone["hosts"]:
                self.nova.call("POST", f"/os-aggregates/{zone['id']}/action", {"remove_host": {"host": h}})
            self.nova.call("DELETE", f"/os-aggregates/{zone['id']}")

    def group(self, policy):
        return self.nova.call("POST", "/os-server-groups", {"server_group": {"name": policy, "policy": policy}})[
            "server_group"
        ]["id"]


def check(truth, words):
    if not truth:
        raise AssertionError(words)


@step
def create_20(world):
    ids = [world.nova.create(f"twenty-{n}", world.small) for n in range(20)]
    world.made += ids
    used = {host(world.nova.wait(s, "ACTIVE")) for s in ids}
    return f"{len(used)} hosts"


@step
def create_10_in_one_request(world):
    return f"{len({host(s) for s in world.create('ten', 10)})} hosts"


@step
def too_big_for_every_host(world):
    (s,) = world.create("huge", flavor=world.huge, status="ERROR")
    check("No valid host" in s["fault"]["message"], s["fault"])


@step
def race_for_the_last_places(world):
    """More servers than hosts, each as big as a host, asked for at the same time: every host gets one."""
    room = world.cloud.rows(
        "placement",
        "select min(i.total) from inventories i join resource_classes r on r.id = i.resource_class_id"
        " where r.name = 'MEMORY_MB'",
    )[0][0]
    flavor, spare = world.nova.flavor(f"1,{room},1"), 5
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda n: world.nova.create(f"race-{n}", flavor), range(len(world.hosts) + spare)))
    world.made += ids
    servers = [world.nova.wait(s, "ACTIVE", "ERROR") for s in ids]
    used = [host(s) for s in servers if s["status"] == "ACTIVE"]
    check(sorted(used) == sorted(world.hosts), f"{len(used)} built on {len(set(used))} hosts")


@step
def anti_affinity_in_one_request(world):
    count = min(5, len(world.hosts))
    servers = world.create("apart", count, hints={"group": world.group("anti-affinity")})
    check(len({host(s) for s in servers}) == count, [host(s) for s in servers])


@step
def anti_affinity_one_by_one(world):
    group, count = world.group("anti-affinity"), min(5, len(world.hosts))
    servers = [world.create(f"apart-{n}", hints={"group": group})[0] for n in range(count)]
    check(len({host(s) for s in servers}) == count, [host(s) for s in servers])


@step
def anti_affinity_with_more_servers_than_hosts(world):
    servers = world.create(
        "crowd", len(world.hosts) + 1, hints={"group": world.group("anti-affinity")}, status="ERROR"
    )
    check(all("No valid host" in s["fault"]["message"] for s in servers), "wrong fault")


@step
def affinity(world):
    group = world.group("affinity")
    servers = world.create("close", 3, hints={"group": group}) + world.create("near", hints={"group": group})
    check(len({host(s) for s in servers}) == 1, [host(s) for s in servers])


@step
def availability_zone(world):
    inside = world.hosts[:2]
    world.zone("zone-a", inside)
    servers = world.create("zoned", 4, availability_zone="zone-a")
    check({host(s) for s in servers} <= set(inside), [host(s) for s in servers])
    world.nova.act(servers[0]["id"], "migrate")  # a move stays in the zone that was asked for
    moved = world.nova.wait(servers[0]["id"], "VERIFY_RESIZE")
    check(host(moved) in inside and host(moved) != host(servers[0]), host(moved))
    world.nova.act(moved["id"], "confirmResize")
    world.nova.wait(moved["id"], "ACTIVE")


@step
def aggregate_with_extra_specs(world):
    inside = world.hosts[1:3]
    world.zone("fast", inside, disk="ssd")
    servers = world.create(
        "fast", 4, flavor=world.nova.flavor("1,256,1", **{"aggregate_instance_extra_specs:disk": "ssd"})
    )
    check({host(s) for s in servers} <= set(inside), [host(s) for s in servers])


@step
def pinned_numa_servers_fill_two_hosts(world):
    """Two servers of 4 + 4 pinned cpus fill a host of 8 + 8; nova-compute would refuse a wrong choice."""
    check(world.cloud.env["sizes"] == SIZES, f"needs hosts of {SIZES}")
    flavor = world.nova.flavor("8,2048,1", **{"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated"})
    world.zone("zone-numa", world.hosts[:2])
    servers = world.create("pinned", 4, flavor=flavor, availability_zone="zone-numa")
    check(sorted(host(s) for s in servers) == sorted(world.hosts[:2] * 2), [host(s) for s in servers])
    world.create("overpinned", flavor=flavor, availability_zone="zone-numa", status="ERROR")


@step
def same_host_and_different_host(world):
    (first,) = world.create("first")
    (same,) = world.create("same", hints={"same_host": first["id"]})
    (other,) = world.create("other", hints={"different_host": [first["id"]]})
    check(host(same) == host(first) != host(other), [host(s) for s in (first, same, other)])


@step
def requested_host(world):
    for target in world.hosts[-2:]:
        (s,) = world.create(f"at-{target}", host=target)
        check(host(s) == target, host(s))


@step
def forced_host(world):
    for target in world.hosts[:2]:
        (s,) = world.create(f"forced-{target}", availability_zone=f"nova:{target}")
        check(host(s) == target, host(s))


@step
def disabled_host(world):
    target = world.hosts[0]
    for n in range(5):  # each a moment after a request that has just read the databases
        world.create(f"before-{n}")
        world.set_service(target, status="disabled")
        try:
            (s,) = world.create(f"disabled-{n}", host=target, status="ERROR")
            check("No valid host" in s["fault"]["message"], s["fault"])
        finally:
            world.set_service(target, status="enabled")
        (s,) = world.create(f"enabled-{n}", host=target)
        check(host(s) == target, host(s))


def resized(world):
    (s,) = world.create("resized")
    world.nova.act(s["id"], "resize", {"flavorRef": world.big})
    now = world.nova.wait(s["id"], "VERIFY_RESIZE")
    check(host(now) != host(s) and now["flavor"]["vcpus"] == 2, now)
    check((audit := settled(world.cloud))["ok"] and audit["moves"] == 1, audit)
    return s, now


@step
def resize_and_confirm(world):
    _, now = resized(world)
    world.nova.act(now["id"], "confirmResize")
    check(host(world.nova.wait(now["id"], "ACTIVE")) == host(now), "moved")


@step
def resize_and_revert(world):
    before, now = resized(world)
    world.nova.act(now["id"], "revertResize")
    s = world.nova.wait(now["id"], "ACTIVE")
    check(host(s) == host(before) and s["flavor"]["vcpus"] == 1, s)


@step
def resize_to_something_too_big(world):
    (s,) = world.create("kept")
    world.nova.act(s["id"], "resize", {"flavorRef": world.huge})
    now = world.nova.wait(s["id"], "ACTIVE")
    check(host(now) == host(s) and now["flavor"]["vcpus"] == 1, now)


@step
def cold_migrate(world):
    (s,) = world.create("cold")
    world.nova.act(s["id"], "migrate")
    now = world.nova.wait(s["id"], "VERIFY_RESIZE")
    check(host(now) != host(s), host(now))
    world.nova.act(s["id"], "confirmResize")
    world.nova.wait(s["id"], "ACTIVE")


@step
def cold_migrate_to_a_named_host(world):
    (s,) = world.create("cold")
    target = next(h for h in world.hosts if h != host(s))
    world.nova.act(s["id"], "migrate", {"host": target})
    check(host(world.nova.wait(s["id"], "VERIFY_RESIZE")) == target, target)
    world.nova.act(s["id"], "confirmResize")
    world.nova.wait(s["id"], "ACTIVE")


def live(world, target=None):
    (s,) = world.create("live")
    target = target and next(h for h in world.hosts if h != host(s))
    world.nova.act(s["id"], "os-migrateLive", {"host": target, "block_migration": "auto"})
    now = world.nova.wait(s["id"], "ACTIVE", away_from=host(s))
    check(target in (None, host(now)), f"{host(s)} -> {host(now)}")


@step
def live_migrate(world):
    live(world)


@step
def live_migrate_to_a_named_host(world):
    live(world, target=True)


@step
def evacuate(world):
    dead = world.hosts[0]
    servers = [world.create(f"evacuated-{n}", host=dead)[0] for n in range(3)]
    world.cloud.end_compute(dead)
    world.set_service(dead, forced_down=True)
    try:
        for s in servers:
            world.nova.act(s["id"], "evacuate", {})
        for s in servers:
            world.nova.wait(
                s["id"], "SHUTOFF", away_from=dead
            )  # from version 2.95 on an evacuated server is left stopped
    finally:
        world.cloud.start_computes([dead])  # the returning host gives up what it held in placement
        world.set_service(dead, forced_down=False)
        wait_for(dead, lambda: world.service(dead)["state"] == "up")


@step
def shelve_and_unshelve(world):
    (s,) = world.create("shelved")
    world.nova.act(s["id"], "shelve")
    world.nova.wait(s["id"], "SHELVED_OFFLOADED")
    check(settled(world.cloud)["consumers"] == 0, "allocation left")
    world.nova.act(s["id"], "unshelve")
    world.nova.wait(s["id"], "ACTIVE")


@step
def rebuild_with_another_image(world):
    (s,) = world.create("rebuilt")
    world.nova.act(s["id"], "rebuild", {"imageRef": world.cloud.env["image"][:-1] + "2"})
    now = world.nova.wait(s["id"], "ACTIVE")
    check(host(now) == host(s) and now["image"]["id"].endswith("2"), now["image"])


@step
def new_host_and_reschedule(world):
    """A host joins while the cloud runs. It has most room, so it is tried first, and fails every first build."""
    flaky, zone_hosts = "flaky0", ["flaky0", world.hosts[0], world.hosts[-1]]
    world.cloud.start_computes([flaky])
    world.cloud.discover_hosts()
    world.zone("zone-flaky", zone_hosts)
    (s,) = world.create("again", availability_zone="zone-flaky")
    tried = [
        e["host"]
        for a in world.nova.call("GET", f"/servers/{s['id']}/os-instance-actions")["instanceActions"]
        for e in world.nova.call("GET", f"/servers/{s['id']}/os-instance-actions/{a['request_id']}")[
            "instanceAction"
        ]["events"]
        if "build_and_run" in e["event"]
    ]
    check(host(s) in zone_hosts[1:], host(s))
    world.clean()
    world.cloud.end_compute(flaky)
    world.nova.call("DELETE", f"/os-services/{world.service(flaky)['id']}")
    return f"{len(tried)} builds"


@step
def delete_while_building(world):
    for n in range(5):
        world.nova.delete([world.nova.create(f"gone-{n}", world.small)])


def run_scenario(cloud, only="", on_step=None):
    """Run all steps, or those named in `only`; `on_step` is called with each row as it ends."""
    world, rows, began = World(cloud), [], time.monotonic()
    for name in [name for name in STEPS if not only or name in only.split(",")]:
        rows.append(run_step(world, name))
        (on_step or print_step)(rows[-1])
    passed = sum(row["result"] == "ok" for row in rows)
    seconds = round(time.monotonic() - began, 1)
    return {"ok": passed == len(rows), "passed": passed, "of": len(rows), "seconds": seconds, "steps": rows}


def run_step(world, name):
    """Run a step, audit, clean up, and audit again: what came of it."""
    started, result, note = time.monotonic(), "ok", ""
    try:
        note = STEPS[name](world) or ""
        check((now := settled(world.cloud))["ok"], now)
    except Exception as error:
        result, note = "FAILED", f"{error}"[:600]
        traceback.print_exc()
    seconds = time.monotonic() - started
    try:
        world.clean()
        left = settled(world.cloud)
        check(left["ok"] and not left["consumers"], f"after the step: {left}")
    except Exception as error:
        result, note = "FAILED", note + f" {error}"[:600]
    return {"step": name, "result": result, "seconds": round(seconds, 1), "note": note}


def print_step(row):
    print(f"{row['step']:45} {row['result']:7} {row['seconds']:6.1f} s  {row['note']}", flush=True)
