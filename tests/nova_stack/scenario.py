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
def create_20(w):
    ids = [w.nova.create(f"twenty-{n}", w.small) for n in range(20)]
    w.made += ids
    used = {host(w.nova.wait(s, "ACTIVE")) for s in ids}
    return f"{len(used)} hosts"


@step
def create_10_in_one_request(w):
    return f"{len({host(s) for s in w.create('ten', 10)})} hosts"


@step
def too_big_for_every_host(w):
    (s,) = w.create("huge", flavor=w.huge, status="ERROR")
    check("No valid host" in s["fault"]["message"], s["fault"])


@step
def race_for_the_last_places(w):
    """More servers than hosts, each as big as a host, asked for at the same time: every host gets one."""
    room = w.cloud.rows(
        "placement",
        "select min(i.total) from inventories i join resource_classes r on r.id = i.resource_class_id"
        " where r.name = 'MEMORY_MB'",
    )[0][0]
    flavor, spare = w.nova.flavor(f"1,{room},1"), 5
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda n: w.nova.create(f"race-{n}", flavor), range(len(w.hosts) + spare)))
    w.made += ids
    servers = [w.nova.wait(s, "ACTIVE", "ERROR") for s in ids]
    used = [host(s) for s in servers if s["status"] == "ACTIVE"]
    check(sorted(used) == sorted(w.hosts), f"{len(used)} built on {len(set(used))} hosts")


@step
def anti_affinity_in_one_request(w):
    count = min(5, len(w.hosts))
    servers = w.create("apart", count, hints={"group": w.group("anti-affinity")})
    check(len({host(s) for s in servers}) == count, [host(s) for s in servers])


@step
def anti_affinity_one_by_one(w):
    group, count = w.group("anti-affinity"), min(5, len(w.hosts))
    servers = [w.create(f"apart-{n}", hints={"group": group})[0] for n in range(count)]
    check(len({host(s) for s in servers}) == count, [host(s) for s in servers])


@step
def anti_affinity_with_more_servers_than_hosts(w):
    servers = w.create("crowd", len(w.hosts) + 1, hints={"group": w.group("anti-affinity")}, status="ERROR")
    check(all("No valid host" in s["fault"]["message"] for s in servers), "wrong fault")


@step
def affinity(w):
    group = w.group("affinity")
    servers = w.create("close", 3, hints={"group": group}) + w.create("near", hints={"group": group})
    check(len({host(s) for s in servers}) == 1, [host(s) for s in servers])


@step
def availability_zone(w):
    inside = w.hosts[:2]
    w.zone("zone-a", inside)
    servers = w.create("zoned", 4, availability_zone="zone-a")
    check({host(s) for s in servers} <= set(inside), [host(s) for s in servers])
    w.nova.act(servers[0]["id"], "migrate")  # a move stays in the zone that was asked for
    moved = w.nova.wait(servers[0]["id"], "VERIFY_RESIZE")
    check(host(moved) in inside and host(moved) != host(servers[0]), host(moved))
    w.nova.act(moved["id"], "confirmResize")
    w.nova.wait(moved["id"], "ACTIVE")


@step
def aggregate_with_extra_specs(w):
    inside = w.hosts[1:3]
    w.zone("fast", inside, disk="ssd")
    servers = w.create("fast", 4, flavor=w.nova.flavor("1,256,1", **{"aggregate_instance_extra_specs:disk": "ssd"}))
    check({host(s) for s in servers} <= set(inside), [host(s) for s in servers])


@step
def pinned_numa_servers_fill_two_hosts(w):
    """Two servers of 4 + 4 pinned cpus fill a host of 8 + 8; nova-compute would refuse a wrong choice."""
    check(w.cloud.env["sizes"] == SIZES, f"needs hosts of {SIZES}")
    flavor = w.nova.flavor("8,2048,1", **{"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated"})
    w.zone("zone-numa", w.hosts[:2])
    servers = w.create("pinned", 4, flavor=flavor, availability_zone="zone-numa")
    check(sorted(host(s) for s in servers) == sorted(w.hosts[:2] * 2), [host(s) for s in servers])
    w.create("overpinned", flavor=flavor, availability_zone="zone-numa", status="ERROR")


@step
def same_host_and_different_host(w):
    (first,) = w.create("first")
    (same,) = w.create("same", hints={"same_host": first["id"]})
    (other,) = w.create("other", hints={"different_host": [first["id"]]})
    check(host(same) == host(first) != host(other), [host(s) for s in (first, same, other)])


@step
def requested_host(w):
    for target in w.hosts[-2:]:
        (s,) = w.create(f"at-{target}", host=target)
        check(host(s) == target, host(s))


@step
def forced_host(w):
    for target in w.hosts[:2]:
        (s,) = w.create(f"forced-{target}", availability_zone=f"nova:{target}")
        check(host(s) == target, host(s))


@step
def disabled_host(w):
    target = w.hosts[0]
    w.set_service(target, status="disabled")
    try:
        (s,) = w.create("disabled", host=target, status="ERROR")
        check("No valid host" in s["fault"]["message"], s["fault"])
    finally:
        w.set_service(target, status="enabled")
    (s,) = w.create("enabled", host=target)
    check(host(s) == target, host(s))


def resized(w):
    (s,) = w.create("resized")
    w.nova.act(s["id"], "resize", {"flavorRef": w.big})
    now = w.nova.wait(s["id"], "VERIFY_RESIZE")
    check(host(now) != host(s) and now["flavor"]["vcpus"] == 2, now)
    check((audit := settled(w.cloud))["ok"] and audit["moves"] == 1, audit)
    return s, now


@step
def resize_and_confirm(w):
    _, now = resized(w)
    w.nova.act(now["id"], "confirmResize")
    check(host(w.nova.wait(now["id"], "ACTIVE")) == host(now), "moved")


@step
def resize_and_revert(w):
    before, now = resized(w)
    w.nova.act(now["id"], "revertResize")
    s = w.nova.wait(now["id"], "ACTIVE")
    check(host(s) == host(before) and s["flavor"]["vcpus"] == 1, s)


@step
def resize_to_something_too_big(w):
    (s,) = w.create("kept")
    w.nova.act(s["id"], "resize", {"flavorRef": w.huge})
    now = w.nova.wait(s["id"], "ACTIVE")
    check(host(now) == host(s) and now["flavor"]["vcpus"] == 1, now)


@step
def cold_migrate(w):
    (s,) = w.create("cold")
    w.nova.act(s["id"], "migrate")
    now = w.nova.wait(s["id"], "VERIFY_RESIZE")
    check(host(now) != host(s), host(now))
    w.nova.act(s["id"], "confirmResize")
    w.nova.wait(s["id"], "ACTIVE")


@step
def cold_migrate_to_a_named_host(w):
    (s,) = w.create("cold")
    target = next(h for h in w.hosts if h != host(s))
    w.nova.act(s["id"], "migrate", {"host": target})
    check(host(w.nova.wait(s["id"], "VERIFY_RESIZE")) == target, target)
    w.nova.act(s["id"], "confirmResize")
    w.nova.wait(s["id"], "ACTIVE")


def live(w, target=None):
    (s,) = w.create("live")
    target = target and next(h for h in w.hosts if h != host(s))
    w.nova.act(s["id"], "os-migrateLive", {"host": target, "block_migration": "auto"})
    now = w.nova.wait(s["id"], "ACTIVE", away_from=host(s))
    check(target in (None, host(now)), f"{host(s)} -> {host(now)}")


@step
def live_migrate(w):
    live(w)


@step
def live_migrate_to_a_named_host(w):
    live(w, target=True)


@step
def evacuate(w):
    dead = w.hosts[0]
    servers = [w.create(f"evacuated-{n}", host=dead)[0] for n in range(3)]
    w.cloud.end_compute(dead)
    w.set_service(dead, forced_down=True)
    try:
        for s in servers:
            w.nova.act(s["id"], "evacuate", {})
        for s in servers:
            w.nova.wait(
                s["id"], "SHUTOFF", away_from=dead
            )  # from version 2.95 on an evacuated server is left stopped
    finally:
        w.cloud.start_computes([dead])  # the returning host gives up what it held in placement
        w.set_service(dead, forced_down=False)
        wait_for(dead, lambda: w.service(dead)["state"] == "up")


@step
def shelve_and_unshelve(w):
    (s,) = w.create("shelved")
    w.nova.act(s["id"], "shelve")
    w.nova.wait(s["id"], "SHELVED_OFFLOADED")
    check(settled(w.cloud)["consumers"] == 0, "allocation left")
    w.nova.act(s["id"], "unshelve")
    w.nova.wait(s["id"], "ACTIVE")


@step
def rebuild_with_another_image(w):
    (s,) = w.create("rebuilt")
    w.nova.act(s["id"], "rebuild", {"imageRef": w.cloud.env["image"][:-1] + "2"})
    now = w.nova.wait(s["id"], "ACTIVE")
    check(host(now) == host(s) and now["image"]["id"].endswith("2"), now["image"])


@step
def new_host_and_reschedule(w):
    """A host joins while the cloud runs. It has most room, so it is tried first, and fails every first build."""
    flaky, zone_hosts = "flaky0", ["flaky0", w.hosts[0], w.hosts[-1]]
    w.cloud.start_computes([flaky])
    w.cloud.discover_hosts()
    w.zone("zone-flaky", zone_hosts)
    (s,) = w.create("again", availability_zone="zone-flaky")
    tried = [
        e["host"]
        for a in w.nova.call("GET", f"/servers/{s['id']}/os-instance-actions")["instanceActions"]
        for e in w.nova.call("GET", f"/servers/{s['id']}/os-instance-actions/{a['request_id']}")["instanceAction"][
            "events"
        ]
        if "build_and_run" in e["event"]
    ]
    check(host(s) in zone_hosts[1:], host(s))
    w.clean()
    w.cloud.end_compute(flaky)
    w.nova.call("DELETE", f"/os-services/{w.service(flaky)['id']}")
    return f"{len(tried)} builds"


@step
def delete_while_building(w):
    for n in range(5):
        w.nova.delete([w.nova.create(f"gone-{n}", w.small)])


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
