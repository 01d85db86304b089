# SPDX-License-Identifier: Apache-2.0
"""Operators' own tool, python-openstackclient, against a Roost cloud: `roost dev`, then one of many processes.

Every command is a process of its own, as people type it.
"""

import json
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from tests.interop.checks import tell
from tests.interop.openstack_command import OpenStack

from roost.clock import SystemClock
from roost.trial.cluster import ClusterControl
from roost.trial.plan import ClusterShape
from roost.trial.state import StateFolder

HOSTS, START_SECONDS = 10, 120
SMALL, LARGE, IMAGE, ZONE, AGGREGATE = "interop.small", "interop.large", "interop-image", "interop-zone", "interop"
MEMBER = "roost-member"
MADE = ("pair-1", "pair-2", "zoned", "named", "forced", "away")
"""Names of the servers."""


def run(checks, folder):
    """All commands on a cloud in one process, and all of them again on one of many processes."""
    for name, cloud in (("dev", dev_cloud), ("cluster", cluster_cloud)):
        tell(f"roost {name}")
        with cloud(folder) as clouds:
            Story(checks, f"roost {name}", OpenStack(clouds)).tell()


@contextmanager
def dev_cloud(folder):
    """`roost dev`; its clouds.yaml."""
    state, ready = folder / "dev", folder / "ready.json"
    command = [sys.executable, "-m", "roost", "dev", "--hosts", str(HOSTS), "--port", "0"]
    with (folder / "dev.out").open("w") as out:
        arguments = ["--state-dir", str(state), "--ready-file", str(ready)]
        process = subprocess.Popen([*command, *arguments], stdout=out, stderr=out)
    try:
        give_up = time.monotonic() + START_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"roost dev does not start: see {folder / 'dev.out'}")
            time.sleep(0.1)
        yield Path(json.loads(ready.read_text())["clouds_yaml"])
    finally:
        process.terminate()
        process.wait()


@contextmanager
def cluster_cloud(folder):
    """`roost cluster`, with two of each kind of process; its clouds.yaml."""
    with tempfile.TemporaryDirectory(prefix="roost-interop-") as place:  # PostgreSQL has a user of its own
        Path(place).chmod(0o755)
        state = StateFolder(Path(place))
        control = ClusterControl(state, SystemClock(), tell)
        control.start(ClusterShape(agents=HOSTS, apis=2))
        try:
            yield state.clouds_file
        finally:
            control.stop()


class Story:
    """The commands, one after the other; each is a check."""

    def __init__(self, checks, where, openstack):
        self._checks, self._where, self._admin = checks, where, openstack

    def tell(self):
        """All chapters. A later one uses what an earlier one made."""
        for chapter in (
            self.flavors,
            self.images,
            self.hosts,
            self.aggregates,
            self.groups,
            self.placements,
            self.resizes,
            self.moves,
            self.shelving,
            self.members,
            self.the_end,
        ):
            try:
                chapter()
            except (LookupError, TypeError, AttributeError) as error:
                self._see(f"{chapter.__name__} to its end", False, f"{type(error).__name__}: {error}")

    # --- asking ------------------------------------------------------------------------------------------

    def _see(self, what, is_right, found=""):
        self._checks.see(f"{self._where}: {what}", is_right, found)

    def ask(self, *words, is_right=bool, user=None):
        """A command that prints something; `is_right` judges what. Returns it."""
        done = (self._admin.as_user(user) if user else self._admin).run(*words)
        judged = done.code == 0 and bool(is_right(done.found))
        self._see(
            " ".join(map(str, words)), judged, "" if judged else done.said if done.code else str(done.found)[:300]
        )
        return done.found

    def do(self, *words):
        """A command that prints nothing."""
        done = self._admin.run(*words, prints=False)
        self._see(" ".join(map(str, words)), done.code == 0, "" if done.code == 0 else done.said)

    def refuse(self, *words, status, user=None, prints=True):
        """A command that has to fail with this status."""
        done = (self._admin.as_user(user) if user else self._admin).run(*words, prints=prints)
        is_right = done.code != 0 and str(status) in done.said
        self._see(f"{' '.join(map(str, words))} is refused", is_right, done.said)

    def show(self, server):
        """The record of a server, without a check."""
        return self._admin.run("server", "show", server).found

    def host_of(self, server):
        """The host on which a server is."""
        return self.show(server)["OS-EXT-SRV-ATTR:host"]

    def boot(self, name, *words, is_right=lambda server: True):
        """A server that is active."""
        return self.ask(
            *("server", "create", "--flavor", SMALL, "--image", IMAGE, "--no-network", "--wait", *words, name),
            is_right=lambda found: found["status"] == "ACTIVE" and is_right(found),
        )

    # --- the catalogue -----------------------------------------------------------------------------------

    def flavors(self):
        """Flavors: create, list, show, set."""
        for name, ram in ((SMALL, 512), (LARGE, 1024)):
            self.ask(
                *("flavor", "create", name, "--ram", ram, "--vcpus", 1, "--disk", 1),
                is_right=lambda found, ram=ram: found["ram"] == ram,
            )
        self.ask("flavor", "list", is_right=lambda found: {SMALL, LARGE} <= names(found))
        self.do("flavor", "set", "--property", "hw:watchdog_action=reset", SMALL)
        self.ask(
            *("flavor", "show", SMALL), is_right=lambda found: found["properties"] == {"hw:watchdog_action": "reset"}
        )

    def images(self):
        """Images: create, list, show."""
        self.ask("image", "create", IMAGE, "--property", "hw_architecture=x86_64", "--public")
        self.ask("image", "list", is_right=lambda found: IMAGE in names(found))
        self.ask(*("image", "show", IMAGE), is_right=lambda found: found["properties"]["hw_architecture"] == "x86_64")

    # --- hosts -------------------------------------------------------------------------------------------

    def hosts(self):
        """Hypervisors: list, show, statistics. Services: list, disable, enable."""
        listed = self.ask("hypervisor", "list", is_right=lambda found: len(found) == HOSTS)
        self._up = sorted(each["Hypervisor Hostname"] for each in listed if each["State"] == "up")
        first = self._up[0]
        self.ask("hypervisor", "show", first, is_right=lambda found: found["hypervisor_hostname"] == first)
        self.ask("hypervisor", "stats", "show", is_right=lambda found: 0 < found["count"] <= HOSTS)
        self.ask("compute", "service", "list", is_right=lambda found: len(found) >= HOSTS)
        self.do("compute", "service", "set", "--disable", "--disable-reason", "interop", first, "nova-compute")
        self.ask(
            *("compute", "service", "list", "--service", "nova-compute", "--host", first, "--long"),
            is_right=lambda found: found[0]["Status"] == "disabled" and found[0]["Disabled Reason"] == "interop",
        )
        self.do("compute", "service", "set", "--enable", first, "nova-compute")

    def aggregates(self):
        """Aggregates: create, add host, set, remove host; and the zone that one makes where the hosts have none."""
        zones = ("availability", "zone", "list", "--compute")
        found = {each["Zone Name"] for each in self.ask(*zones)}
        self._zone = next((zone for zone in sorted(found) if zone.startswith("zone-")), ZONE)
        new_zone = ("--zone", ZONE) if self._zone == ZONE else ()
        self.ask("aggregate", "create", *new_zone, AGGREGATE)
        for host in self._up[:2]:
            self.ask(
                "aggregate", "add", "host", AGGREGATE, host, is_right=lambda found, host=host: host in found["hosts"]
            )
        self.do("aggregate", "set", "--property", "rack=7", AGGREGATE)
        self.ask("aggregate", "list", "--long", is_right=lambda found: AGGREGATE in names(found))
        self.ask("aggregate", "show", AGGREGATE, is_right=lambda found: found["properties"]["rack"] == "7")
        last = self._up[1]
        self.ask(*("aggregate", "remove", "host", AGGREGATE, last), is_right=lambda found: last not in found["hosts"])
        self.ask(*zones, is_right=lambda found: self._zone in {each["Zone Name"] for each in found})

    # --- servers -----------------------------------------------------------------------------------------

    def groups(self):
        """Server groups: create, list, show; two members of one that keeps them apart, in one request."""
        rule = ("--policy", "anti-affinity", "--rule", "max_server_per_host=1")
        group = self.ask("server", "group", "create", *rule, "apart")["id"]
        self.ask("server", "group", "list", is_right=lambda found: "apart" in names(found))
        self.boot("pair", "--hint", f"group={group}", "--min", 2, "--max", 2)
        hosts = {self.host_of(name) for name in ("pair-1", "pair-2")}
        self._see("members of the group are apart", len(hosts) == 2, hosts)
        self.ask("server", "group", "show", group, is_right=lambda found: len(members_of(found)) == 2)
        self._group = group

    def placements(self):
        """Servers: create in a zone, on a host, with properties; list, show."""
        first, other = self._up[0], self._up[2]
        self.boot(
            *("zoned", "--availability-zone", self._zone),
            is_right=lambda found: found["OS-EXT-AZ:availability_zone"] == self._zone,
        )
        self.boot("named", "--host", other, is_right=lambda found: host_in(found) == other)
        self.boot(
            "forced", "--availability-zone", f"{self._zone}:{first}", is_right=lambda found: host_in(found) == first
        )
        self.boot("away", "--property", "role=mover", is_right=lambda found: found["properties"] == {"role": "mover"})
        self.ask(*("server", "list"), is_right=lambda found: set(MADE) <= names(found))
        self.ask("server", "list", "--long", "--name", "named", is_right=lambda found: names(found) == {"named"})
        self.ask("server", "show", "named", is_right=lambda found: found["status"] == "ACTIVE")

    def resizes(self):
        """Servers: resize and confirm, resize and revert."""
        for end, flavor in (("confirm", LARGE), ("revert", LARGE)):
            self.do("server", "resize", "--flavor", flavor if end == "confirm" else SMALL, "--wait", "away")
            self.state_is("away", "VERIFY_RESIZE")
            self.do("server", "resize", end, "away")
            self.state_is("away", "ACTIVE")
            self._see(f"away is of {flavor} after {end}", flavor in str(self.show("away")["flavor"]))

    def moves(self):
        """Servers: migrate, live-migrate to any host and to a named one, evacuate; list of migrations."""
        before = self.host_of("away")
        self.do("server", "migrate", "--wait", "away")
        self.do("server", "migration", "confirm", "away")
        self.state_is("away", "ACTIVE")
        self.moved("away", before)
        before = self.host_of("away")
        self.do("server", "migrate", "--live-migration", "--wait", "away")
        self.moved("away", before)
        target = next(each for each in self._up if each != self.host_of("away"))
        self.do("server", "migrate", "--live-migration", "--host", target, "--wait", "away")
        self._see(f"away is on {target}", self.host_of("away") == target)
        self.refuse("server", "evacuate", "away", status=400)
        self.do("compute", "service", "set", "--down", target, "nova-compute")
        self.ask("server", "evacuate", "away")  # with --wait this client waits for a status in capitals, for good
        self.state_is("away", "ACTIVE")
        self.moved("away", target)
        self.do("compute", "service", "set", "--up", target, "nova-compute")
        self.ask("server", "migration", "list", is_right=lambda found: len(found) >= 4)

    def shelving(self):
        """Servers: shelve, unshelve, stop, start."""
        self.do("server", "shelve", "--wait", "--offload", "away")
        self.state_is("away", "SHELVED_OFFLOADED")
        self.do("server", "unshelve", "--wait", "away")
        self.state_is("away", "ACTIVE")
        self.do("server", "stop", "away")
        self.state_is("away", "SHUTOFF")
        self.do("server", "start", "away")
        self.state_is("away", "ACTIVE")

    def members(self):
        """What a member of another project sees, and what is refused."""
        self.ask("server", "list", user=MEMBER, is_right=lambda found: found == [])
        self.refuse("server", "show", "away", user=MEMBER, status="away")
        self.refuse("hypervisor", "list", user=MEMBER, status=403)
        self.refuse(
            "server",
            "create",
            "--flavor",
            LARGE,
            "--image",
            IMAGE,
            "--no-network",
            "--host",
            self._up[0],
            "x",
            user=MEMBER,
            status=403,
        )

    def the_end(self):
        """Deletes all that was made."""
        self.do("server", "delete", "--wait", *MADE)
        self.ask("server", "list", is_right=lambda found: not names(found) & set(MADE))
        self.do("server", "group", "delete", self._group)
        self.ask("aggregate", "remove", "host", AGGREGATE, self._up[0])
        self.do("aggregate", "delete", AGGREGATE)
        self.do("image", "delete", IMAGE)
        self.do("flavor", "delete", SMALL, LARGE)

    # --- judging -----------------------------------------------------------------------------------------

    def state_is(self, server, wanted):
        """Wait until a server has this status; a check that fails if it gets another one for good."""
        give_up = time.monotonic() + 30
        while (found := self.show(server)["status"]) != wanted and time.monotonic() < give_up:
            pass
        self._see(f"{server} is {wanted}", found == wanted, "" if found == wanted else found)

    def moved(self, server, before):
        """A check that a server is on another host than before."""
        found = self.host_of(server)
        self._see(f"{server} has moved", found not in (before, None), f"{before} to {found}")


def names(records):
    return {each["Name"] for each in records}


def host_in(server):
    return server["OS-EXT-SRV-ATTR:host"]


def members_of(group):
    found = group["members"]
    return found.split(", ") if isinstance(found, str) else found
