# SPDX-License-Identifier: Apache-2.0
"""Ask the cloud through nova-api, as a user would."""

import collections
import threading
import time
import uuid

import requests
from tests.nova_stack.audit import settled

VERSION = "2.96"


class Nova:
    """Calls of nova-api with the newest request forms; every call returns the decoded answer or raises."""

    def __init__(self, cloud):
        self.env, self._local = cloud.env, threading.local()
        self._headers = {"X-Auth-Token": self.env["token"], "OpenStack-API-Version": f"compute {VERSION}"}

    def call(self, method, path, body=None):
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
        url = self.env["api"] + path
        answer = self._local.session.request(method, url, json=body, headers=self._headers, timeout=300)
        if answer.status_code >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json() if answer.text else None

    def flavor(self, size, **extra_specs):
        """The id of the flavor 'vcpus,MiB,GB', which is created where it is missing."""
        name = "v" + size.replace(",", "-")
        if name not in {each["id"] for each in self.call("GET", "/flavors")["flavors"]}:
            vcpus, ram, disk = map(int, size.split(","))
            flavor = {"id": name, "name": name, "vcpus": vcpus, "ram": ram, "disk": disk}
            self.call("POST", "/flavors", {"flavor": flavor})
            self.call("POST", f"/flavors/{name}/os-extra_specs", {"extra_specs": extra_specs})
        return name

    def create(self, name, flavor, count=1, hints=None, **more):
        """Ask for servers, in one request: the id of the first."""
        server = {"name": name, "imageRef": self.env["image"], "flavorRef": flavor, "networks": "none"}
        body = {"server": {**server, "min_count": count, "max_count": count, **more}}
        if hints:
            body["os:scheduler_hints"] = hints
        return self.call("POST", "/servers", body)["server"]["id"]

    def servers(self, name=""):
        """All servers whose name begins with `name`, by id."""
        found, marker = {}, ""
        query = f"/servers/detail?all_tenants=1&limit=500&name=^{name}"
        while page := self.call("GET", query + marker)["servers"]:
            found |= {server["id"]: server for server in page}
            marker = f"&marker={page[-1]['id']}"
        return found

    def show(self, server):
        return self.call("GET", f"/servers/{server}")["server"]

    def act(self, server, action, body=None):
        return self.call("POST", f"/servers/{server}/action", {action: body})

    def wait(self, server, *statuses, away_from=None, seconds=120):
        """The server once it has one of these statuses, nothing under way, and is not on that host."""
        give_up = time.monotonic() + seconds
        while True:
            found = self.show(server)
            task, is_away = found["OS-EXT-STS:task_state"], not away_from or host(found) != away_from
            if found["status"] in statuses and not task and is_away:
                return found
            if found["status"] == "ERROR" or time.monotonic() > give_up:
                state = f"{found['status']}/{task} on {host(found)}, not {statuses}"
                raise RuntimeError(f"{found['name']} is {state}: {found.get('fault', {}).get('message', '')}")
            time.sleep(0.2)

    def delete(self, servers, seconds=300):
        """Delete servers and wait until they are gone."""
        for server in servers:
            self.call("DELETE", f"/servers/{server}")
        give_up = time.monotonic() + seconds
        while (left := set(servers) & set(self.servers())) and time.monotonic() < give_up:
            time.sleep(0.5)
        if left:
            raise RuntimeError(f"not deleted: {sorted(left)}")


def host(server):
    return server["OS-EXT-SRV-ATTR:host"]


def boot(cloud, count, flavor, parallel, batch=1):
    """Create `count` servers, `batch` per request, `parallel` requests at a time, and wait for them."""
    nova, prefix = Nova(cloud), f"boot-{uuid.uuid4().hex[:6]}-"
    flavor, todo = nova.flavor(flavor), iter(range(0, count, batch))

    def work():
        for number in todo:
            nova.create(f"{prefix}{number}", flavor, count=min(batch, count - number))

    started = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(parallel)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    building = f"/servers?all_tenants=1&limit=1&status=BUILD&name=^{prefix}"
    while nova.call("GET", building)["servers"] and time.monotonic() < started + 900:
        time.sleep(0.5)
    return report(cloud, nova.servers(prefix), count, time.monotonic() - started)


def report(cloud, servers, count, seconds):
    """Where servers went and how they are; `ok` where all are active and the audit is clean."""
    states = collections.Counter(server["status"] for server in servers.values())
    audit = settled(cloud)
    return {
        "ok": states == {"ACTIVE": count} and audit["ok"],
        "status": states,
        "seconds": round(seconds, 1),
        "hosts": collections.Counter(host(server) for server in servers.values()),
        "faults": collections.Counter(each["fault"]["message"] for each in servers.values() if "fault" in each),
        "audit": audit,
        "servers": sorted(servers),
    }
