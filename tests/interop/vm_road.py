# SPDX-License-Identifier: Apache-2.0
"""A server from its request to its end, through all services, on real hypervisors."""

import json
import time

from tests.nova_stack.processes import wait_for


def run_road(checks, hosts, cloud, stranger):
    """A server from its request to its end, through all services; what became of it is looked at with virsh.

    `stranger`: uuid of a virtual machine of another program, on vm-3.
    """
    told = cloud.agents["vm-3"].log.read_text()
    checks.see("an agent reports a virtual machine of another program", "unknown guest" in told and stranger in told)
    server = see_boot(checks, hosts, cloud)
    see_refusal(checks, cloud)
    host = see_live_migration(checks, hosts, cloud, server)
    see_stop_and_start(checks, hosts[host], cloud, server)
    see_evacuation(checks, hosts, cloud, server, host)
    see_return(checks, hosts, cloud, server, host)
    cloud.roost("server", "delete", "web")
    left = [host.name for host in hosts if server in host.domains()]
    checks.see("delete removes its domain", not left, left)
    checks.see("the stranger has run all the time", hosts["vm-3"].domains() == {stranger: "running"})
    audit = json.loads(cloud.roost("ledger", "audit", "-f", "json"))
    checks.see("the ledger audits clean", not audit["findings"], audit["findings"])


def hosts_running(hosts, server):
    """Names of the hosts on which virsh sees a server run."""
    return [host.name for host in hosts if host.domains().get(server) == "running"]


def see_boot(checks, hosts, cloud):
    cloud.roost("server", "create", "web", "--flavor", "tiny")
    server = cloud.server("web")
    found = hosts_running(hosts, server["id"])
    checks.see("roost server create boots a domain on the chosen host", found == [server["host"]], server["status"])
    return server["id"]


def see_refusal(checks, cloud):
    said = cloud.roost("server", "create", "large", "--flavor", "huge", code=1)
    checks.see("a server that fits nowhere is refused with a reason", "No valid host" in said, said.strip())
    cloud.roost("server", "delete", "large")


def see_live_migration(checks, hosts, cloud, server):
    before = hosts_running(hosts, server)
    target = next(host.name for host in hosts if host.name not in before)
    started = time.monotonic()
    cloud.roost("server", "migrate", "web", "--live", "--host", target)
    found, told = hosts_running(hosts, server), cloud.server("web")
    took = f"{before} to {found}, {time.monotonic() - started:.1f} s"
    checks.see("live migration moves it to the named host", found == [target] == [told["host"]], took)
    return target


def see_stop_and_start(checks, host, cloud, server):
    cloud.roost("server", "stop", "web")
    checks.see("stop", host.domains()[server] == "shut off", host.domains()[server])
    cloud.roost("server", "start", "web")
    checks.see("start", host.domains()[server] == "running", host.domains()[server])


def see_evacuation(checks, hosts, cloud, server, host):
    cloud.agents[host].kill()
    hosts.kill(host)
    wait_for(f"{host} counts as down", lambda: is_down(cloud, host), seconds=60)
    cloud.roost("server", "evacuate", "web")
    others = [each for each in hosts if each.name != host]
    found, told = hosts_running(others, server), cloud.server("web")
    checks.see(
        "evacuate restarts it elsewhere after a power failure", found == [told["host"]] != [host], (host, found)
    )


def is_down(cloud, name):
    found = json.loads(cloud.roost("host", "show", name, "-f", "json"))
    return found.get("state") == "down"


def see_return(checks, hosts, cloud, server, host):
    """The host comes back, with the definition of a server that is elsewhere now."""
    hosts.start(host)
    cloud.start(cloud.agents[host])
    wait_for(
        "the returned host removes what is elsewhere now", lambda: server not in hosts[host].domains(), seconds=60
    )
    checks.see(
        "the host comes back, and its agent removes the server that left", len(hosts_running(hosts, server)) == 1
    )
