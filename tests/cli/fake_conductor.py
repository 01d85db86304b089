# SPDX-License-Identifier: Apache-2.0
"""A conductor that keeps servers in memory: each look at a server that is busy brings it one step further."""

import copy
from base64 import b64encode
from dataclasses import dataclass

from tests.unit.sources.snapshots import snapshot

from roost.errors import BadInput, IllegalStep, RemoteNoValidHost, UnknownName
from roost.messages.dispatcher import as_client_errors

NO_HOST = "No valid host was found. There are not enough hosts available."
SUMMARY = "0 of 2 hosts fit: 2 ram (needs 65536 MiB, most free 16384)"
FLAVORS = [
    {"id": "1", "name": "small", "vcpus": 2, "memory_mb": 2048, "root_gb": 20},
    {"id": "2", "name": "huge", "vcpus": 64, "memory_mb": 65536, "root_gb": 20},
]
IMAGES = [{"id": "8f1c", "name": "debian", "properties": {"hw_architecture": "x86_64"}}]


@dataclass(frozen=True)
class Endpoint:
    version: str
    methods: dict


class FakeConductor:
    """Answers what clients ask. `calls`: what it was asked, `contexts`: in whose name."""

    def __init__(self):
        self.servers, self.hosts, self.calls, self.contexts = {}, {}, [], []
        self.looks = 2
        """How often a busy server is seen until its task is complete."""
        self.fault = None
        """What the next change fails with."""
        for name in ("a", "b"):
            self.hosts[name] = host_record(name)

    def endpoint(self):
        names = [name for name in dir(self) if name.partition("_")[0] in VERBS]
        return Endpoint("1.0", {name: self._guarded(name) for name in names})

    def _guarded(self, name):
        def answer(context, **args):
            self.calls.append((name, copy.deepcopy(args)))
            self.contexts.append(context)
            with as_client_errors(context.is_admin):
                return getattr(self, name)(context, **args)

        return answer

    # --- servers ---

    def create_servers(self, context, request, dry_run=False):
        flavor = next((each for each in FLAVORS if request["flavor"] in (each["name"], each["id"])), None)
        if flavor is None:
            raise UnknownName(f"there is no flavor {request['flavor']}", "did you mean small?")
        if dry_run:
            if flavor["name"] == "huge":
                raise RemoteNoValidHost("NoValidHost", NO_HOST, "x", summary=SUMMARY)
            step = {"server": request["name"], "action": "create", "host": "a", "summary": "1 of 1 placed on a"}
            return {"plan": [step] * request["count"]}
        count = request["count"]
        names = [request["name"]] if count == 1 else [f"{request['name']}-{at + 1}" for at in range(count)]
        made = [self.add(name, flavor, context.project_id) for name in names]
        for server in made:
            fails = flavor["name"] == "huge"
            self._begin(server, "BUILD", "scheduling", "ERROR" if fails else "ACTIVE", host=None if fails else "a")
            if fails:
                server["next"]["fault"] = {"code": 500, "message": NO_HOST, "details": SUMMARY, "created": "now"}
        return {"servers": [shown(each) for each in made]}

    def add(self, name, flavor=None, project="admin", **more):
        uuid = f"{len(self.servers) + 1:08d}-0000-4000-8000-000000000000"
        server = {"id": uuid, "name": name, "status": "ACTIVE", "vm_state": "active", "task_state": None}
        server |= {"power_state": "running", "host": "a", "node": "a", "availability_zone": "nova"}
        server |= {"project_id": project, "user_id": "admin", "flavor": flavor or FLAVORS[0], "image": None}
        server |= {"created_at": "2026-11-15T10:00:00Z", "fault": None, "attempts": [], "migrations": []}
        self.servers[uuid] = server | more
        return self.servers[uuid]

    def list_servers(self, context, filters):
        after, limit = filters.pop("after", ""), filters.pop("limit")
        rest = [each for uuid, each in self.servers.items() if uuid > after]
        found = [each for each in rest if all(each[key] == value for key, value in filters.items())]
        listed = [shown(each) | ({} if each["status"] == "ERROR" else {"fault": None}) for each in found[:limit]]
        return {"servers": listed}

    def get_server(self, context, server):
        found = self._find(server)
        if found["task_state"] is not None:
            found["looks"] -= 1
            if found["looks"] < 0:
                found |= {**found.pop("next"), "task_state": None}
                if found["status"] == "DELETED":
                    del self.servers[found["id"]]
                    raise UnknownName(f"there is no server {server}")
        return shown(found)

    def _find(self, name):
        found = [each for each in self.servers.values() if name in (each["id"], each["name"])]
        if len(found) > 1:
            raise UnknownName(f"{len(found)} servers are named {name}", "name one by its uuid")
        if not found:
            raise UnknownName(f"there is no server {name}")
        return found[0]

    def _begin(self, server, status, task, end, **more):
        server |= {"status": status, "task_state": task, "looks": self.looks, "next": {"status": end, **more}}
        if self.fault:
            server["next"] = {"fault": self.fault, "status": self.fault.get("status", "ERROR")}

    def _change(self, name, action, needs, task, end, dry_run, **more):
        server = self._find(name)
        if server["status"] not in needs:
            raise IllegalStep(
                f"server {server['id']}: {action} is not possible while it is {server['vm_state']}/idle"
            )
        if dry_run:
            step = {"server": server["id"], "name": server["name"], "action": action, "host": more.get("host")}
            summary = f"1 of 1 placed on {more['host']}" if more.get("host") else ""
            return {"plan": [step | {"summary": summary}]}
        self._begin(server, server["status"], task, end, **more)
        return shown(server)

    def delete_server(self, context, server, dry_run=False):
        return self._change(server, "delete", ("ACTIVE", "SHUTOFF", "ERROR"), "deleting", "DELETED", dry_run)

    def start_server(self, context, server, dry_run=False):
        return self._change(server, "start", ("SHUTOFF",), "powering-on", "ACTIVE", dry_run)

    def stop_server(self, context, server, dry_run=False):
        return self._change(server, "stop", ("ACTIVE",), "powering-off", "SHUTOFF", dry_run)

    def resize_server(self, context, server, flavor, dry_run=False):
        if flavor == "huge":
            raise RemoteNoValidHost("NoValidHost", NO_HOST, "x", summary=SUMMARY)
        return self._change(server, "resize", ("ACTIVE",), "resize_prep", "VERIFY_RESIZE", dry_run, host="b")

    def confirm_resize(self, context, server, dry_run=False):
        return self._change(server, "confirm resize", ("VERIFY_RESIZE",), "resize_confirming", "ACTIVE", dry_run)

    def revert_resize(self, context, server, dry_run=False):
        return self._change(server, "revert resize", ("VERIFY_RESIZE",), "resize_reverting", "ACTIVE", dry_run)

    def migrate_server_cold(self, context, server, host=None, dry_run=False):
        where = self._check_host(host)
        return self._change(server, "migrate", ("ACTIVE",), "resize_prep", "VERIFY_RESIZE", dry_run, host=where)

    def live_migrate_server(self, context, server, host=None, force=False, dry_run=False):
        where = self._check_host(host)
        return self._change(server, "live-migrate", ("ACTIVE",), "migrating", "ACTIVE", dry_run, host=where)

    def evacuate_server(self, context, server, host=None, force=False, dry_run=False):
        where = self._check_host(host)
        if self.hosts["a"]["state"] == "up":
            raise BadInput("host a is up", "evacuate servers of a host that is down; migrate those of one that is up")
        return self._change(server, "evacuate", ("ACTIVE", "ERROR"), "rebuilding", "ACTIVE", dry_run, host=where)

    def shelve_server(self, context, server, dry_run=False):
        end = "SHELVED_OFFLOADED"
        return self._change(server, "shelve", ("ACTIVE",), "shelving", end, dry_run, host=None)

    def unshelve_server(self, context, server, host=None, availability_zone=None, dry_run=False):
        where = self._check_host(host)
        return self._change(server, "unshelve", ("SHELVED_OFFLOADED",), "unshelving", "ACTIVE", dry_run, host=where)

    def rebuild_server(self, context, server, image=None, dry_run=False):
        return self._change(server, "rebuild", ("ACTIVE", "ERROR"), "rebuilding", "ACTIVE", dry_run)

    # --- hosts, flavors, images ---

    def _check_host(self, host):
        return self.get_host(None, host or "b")["host"]

    def list_hosts(self, context):
        return {"hosts": list(self.hosts.values())}

    def get_host(self, context, host):
        if host not in self.hosts:
            raise UnknownName(f"there is no host {host}", "see roost host list")
        return self.hosts[host]

    def set_host(self, context, host, disabled=None, reason=None, forced_down=None, dry_run=False):
        if dry_run:
            return {"plan": [{"host": host, "action": "disable" if disabled else "enable"}]}
        record = self.get_host(None, host)
        record |= {"status": "disabled" if disabled else "enabled", "disabled_reason": reason}
        if forced_down is not None:
            record |= {"forced_down": forced_down, "state": "down" if forced_down else "up"}
        return record

    def list_flavors(self, context):
        return {"flavors": FLAVORS}

    def list_images(self, context):
        return {"images": IMAGES}

    def get_snapshot(self, context):
        servers = [shown(each) for each in self.servers.values()]
        return {"snapshot": b64encode(snapshot(servers=servers).to_bytes()).decode()}


VERBS = set("create list get delete start stop resize confirm revert migrate live evacuate shelve".split())
VERBS |= {"unshelve", "rebuild", "set"}


def shown(server):
    return {key: value for key, value in server.items() if key not in ("looks", "next")}


def host_record(name):
    record = {"host": name, "node": name, "state": "up", "status": "enabled", "disabled_reason": None}
    record |= {"forced_down": False, "availability_zone": "nova", "servers": 0, "vcpus": 16, "vcpus_used": 0}
    record |= {"memory_mb": 16384, "memory_mb_used": 0, "disk_gb": 100, "disk_gb_used": 0}
    return record | {"hypervisor_type": "fake", "updated_at": "2026-11-15T10:00:00Z"}
