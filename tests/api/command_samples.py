# SPDX-License-Identifier: Apache-2.0
"""Arguments with which each command of the program does what it is for, so that tests can run all of them.

`CommandSamples` has a method for each command. It makes what the command names, a server that is stopped for
`server start`, and returns the arguments.
"""

import os
import sqlite3
import uuid
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from tests.api.cloud import CHEAP, PASSWORD, wait_for
from tests.store.sqlite_template import upgraded_file

from roost.nova.shadow.comparison import ShadowRecord
from roost.records.tokens import TokenStore
from roost.records.users import ProjectStore, UserStore
from roost.store.schema.fleet import allocations

NOWHERE = "/nowhere/file"
"""A file that cannot be written."""
FLEET = """\
hosts: [{host: "node-[1-2]", vcpus_total: 8, total_usable_ram_mb: 16384, total_usable_disk_gb: 100}]
flavors: [{name: sample-size, vcpus: 2, memory_mb: 2048, root_gb: 20}]
"""
PLAN = "[{name: web, flavor: sample-size}]"
LEAK = """
    INSERT INTO consumers (uuid, created_at) VALUES ('6f0a6b4e-52d5-4d7c-9b62-3d2c3c1f7a10', '2020-01-01 00:00:00');
    INSERT INTO compute_nodes (id, uuid, host, hypervisor_hostname) VALUES (1, 'n', 'east', 'east');
    INSERT INTO allocations VALUES ('6f0a6b4e-52d5-4d7c-9b62-3d2c3c1f7a10', 1, 'VCPU', 2);
"""
"""A claim whose server never came."""
NOVA = """
[roost]
cloud = nova
[api_database]
connection = mysql+pymysql://roost:x@127.0.0.1:1/nova_api
[placement]
auth_url = http://127.0.0.1:1/
"""


@dataclass(frozen=True)
class Sample:
    """The arguments of a call, after the name of the command."""

    words: list
    codes: tuple = (0,)
    """Exit codes of a call with these words."""
    ends: bool = True
    """Whether it comes back by itself; what does not is only called with wrong arguments."""
    wrong: tuple = ()
    """Further arguments, each of which is wrong beside the words."""


class CommandSamples:
    """Samples for a cloud with an API, in the present folder."""

    def __init__(self, cloud):
        self._cloud, self._admin = cloud, cloud.client("admin")
        self._database = ["--connection", f"sqlite:///{cloud.state.database_file}"]

    # --- flavors, images, aggregates, server groups ---

    def flavor_create(self):
        # `a/b` is no key of an extra spec, which the API says when the flavor is there.
        return Sample([_name(), "--ram", "64"], wrong=(["--property", "a/b=c"],))

    def flavor_delete(self):
        return Sample([self._flavor()])

    def flavor_list(self):
        return Sample([])

    def flavor_set(self):
        return Sample([self._flavor(), "--description", _name()], wrong=(["--property", "a/b=c"],))

    def flavor_show(self):
        return Sample(["small"])

    def flavor_unset(self):
        return Sample([self._flavor(), "--property", "hw:cpu_policy"])

    def image_create(self):
        return Sample([_name()], wrong=(["--id", "x"],))

    def image_delete(self):
        return Sample([self._image()])

    def image_list(self):
        return Sample([])

    def image_set(self):
        return Sample([self._image(), "--name", _name()], wrong=(["--property", "os_glance_x=y"],))

    def image_show(self):
        return Sample(["debian-12"])

    def aggregate_add_host(self):
        return Sample([self._aggregate(), "ssd-02"])

    def aggregate_create(self):
        return Sample([_name()], wrong=(["--property", f"{'k' * 300}=v"],))

    def aggregate_delete(self):
        return Sample([self._aggregate()])

    def aggregate_list(self):
        return Sample([])

    def aggregate_remove_host(self):
        made = self._aggregate()
        self._admin.post(f"/os-aggregates/{made}/action", {"add_host": {"host": "ssd-02"}})
        return Sample([made, "ssd-02"])

    def aggregate_set(self):
        return Sample([self._aggregate(), "--name", _name()], wrong=(["--property", f"{'k' * 300}=v"],))

    def aggregate_show(self):
        return Sample(["zone-a"])

    def aggregate_unset(self):
        return Sample([self._aggregate(), "--property", "rack"])

    def server_group_create(self):
        return Sample([_name()])

    def server_group_delete(self):
        return Sample([self._group()])

    def server_group_list(self):
        return Sample([])

    def server_group_show(self):
        return Sample([self._group()])

    def _flavor(self):
        body = {"name": _name(), "ram": 64, "vcpus": 1, "disk": 0}
        made = self._admin.post("/flavors", {"flavor": body}).json()["flavor"]["id"]
        self._admin.post(f"/flavors/{made}/os-extra_specs", {"extra_specs": {"hw:cpu_policy": "shared"}})
        return made

    def _image(self):
        body = {"name": _name(), "disk_format": "raw", "container_format": "bare"}
        return self._admin.post("/image/v2/images", body).json()["id"]

    def _aggregate(self):
        made = str(self._admin.post("/os-aggregates", {"aggregate": {"name": _name()}}).json()["aggregate"]["id"])
        self._admin.post(f"/os-aggregates/{made}/action", {"set_metadata": {"metadata": {"rack": "r7"}}})
        return made

    def _group(self):
        body = {"name": _name(), "policy": "affinity"}
        return self._admin.post("/os-server-groups", {"server_group": body}).json()["server_group"]["id"]

    # --- servers and hosts ---

    def server_create(self):
        name = _name()
        return Sample([name, "--flavor", "small", "--no-wait"])

    def server_list(self):
        return Sample([])

    def server_show(self):
        return Sample([self._server()])

    def server_delete(self):
        return Sample([self._server()])

    def server_stop(self):
        return Sample([self._server(), "--no-wait"])

    def server_start(self):
        return Sample([self._server("SHUTOFF", {"os-stop": None}), "--no-wait"])

    def server_resize(self):
        return Sample([self._server(), "--flavor", "web", "--no-wait"])

    def server_confirm(self):
        return Sample([self._server("VERIFY_RESIZE", {"resize": {"flavorRef": "web"}}), "--no-wait"])

    server_revert = server_confirm

    def server_migrate(self):
        return Sample([self._server(), "--no-wait"])

    def server_evacuate(self):
        return Sample(["--from", self._cloud.dev.fleet.down])

    def server_shelve(self):
        return Sample([self._server(), "--no-wait"])

    def server_unshelve(self):
        return Sample([self._server("SHELVED_OFFLOADED", {"shelve": None}), "--no-wait"])

    def server_rebuild(self):
        return Sample([self._server(), "--image", "debian-12", "--no-wait"])

    def host_disable(self):
        return Sample(["ssd-02", "--reason", _name()])

    def host_enable(self):
        return Sample(["ssd-02"])

    def host_list(self):
        return Sample([])

    def host_show(self):
        return Sample(["ssd-02"])

    def decision_list(self):
        return Sample([])

    def decision_show(self):
        return Sample([self._decided_server()])

    decision_why = decision_show

    def _server(self, status="ACTIVE", action=None):
        """The id of a new server, after an action, once it is in this status."""
        request = {"name": _name(), "flavor": "small", "count": 1}
        made = self._cloud.dev.client.create_servers(request)["servers"][0]["id"]
        self._wait(made, "ACTIVE")
        if action:
            answer = self._admin.post(f"/servers/{made}/action", action)
            assert answer.status_code == 202, answer.text
            self._wait(made, status)
        return made

    def _wait(self, server, status):
        def is_there():
            found = self._cloud.dev.client.get_server(server)
            is_free = status != "SHELVED_OFFLOADED" or not self._held_by(server)  # it is released a moment later
            return found["task_state"] is None and found["status"] == status and is_free

        wait_for(is_there, f"{server} to be {status}")

    def _held_by(self, server):
        with self._cloud.dev.engine.connect() as connection:
            return connection.execute(select(allocations).where(allocations.c.consumer_uuid == server)).all()

    def _decided_server(self):
        made = self._server()
        wait_for(lambda: self._cloud.dev.latest_decision_about(made), "a decision")
        return made

    # --- users, projects, tokens ---

    def project_create(self):
        return Sample([_name(), *self._database])

    def project_delete(self):
        return Sample([self._project(), *self._database])

    def project_list(self):
        return Sample(self._database)

    def user_create(self):
        Path("password").write_text(PASSWORD)
        where = ["--project", self._project(), "--role", "member", "--password-file", "password"]
        return Sample([_name(), *where, *self._database], wrong=(["--password-file", NOWHERE],))

    def user_delete(self):
        return Sample([self._user(), *self._database])

    def user_list(self):
        return Sample(self._database)

    def user_set(self):
        wrong = (["--role", "admin"], ["--project", "nowhere", "--role", "admin"], ["--password-file", NOWHERE])
        return Sample([self._user(), "--disable", *self._database], wrong=wrong)

    def user_show(self):
        return Sample([self._user(), *self._database])

    def token_create(self):
        return Sample([self._user(), "--system", *self._database])

    def token_list(self):
        return Sample(self._database)

    def token_revoke(self):
        user = UserStore(self._cloud.dev.engine, self._cloud.dev.clock).find(self._user())
        issued = TokenStore(self._cloud.dev.engine, self._cloud.dev.clock).issue(
            user.id, "system", {"reader"}, "token", 60
        )
        return Sample([issued.accepted.id, *self._database])

    def _project(self):
        return ProjectStore(self._cloud.dev.engine, self._cloud.dev.clock).create(_name()).name

    def _user(self):
        name = _name()
        UserStore(self._cloud.dev.engine, self._cloud.dev.clock, CHEAP).create(name, PASSWORD, {"system": "reader"})
        return name

    # --- files ---

    def capacity(self):
        return Sample(["--fleet", _file("fleet.yaml", FLEET)])

    def explain(self):
        return Sample(["--fleet", _file("fleet.yaml", FLEET), "--flavor", "sample-size"])

    place = explain

    def plan(self):
        return Sample([_file("plan.yaml", PLAN), "--fleet", _file("fleet.yaml", FLEET)])

    def fleet_schema(self):
        return Sample([])

    def fleet_import(self):
        name = _name()
        database = f"{name}.db"
        Path(database).write_bytes(upgraded_file())
        return Sample([_file("fleet.yaml", FLEET), "--connection", f"sqlite:///{database}"])

    def fleet_export(self):
        return Sample([f"{_name()}.yaml", *self._database], wrong=([NOWHERE],))

    def snapshot_save(self):
        return Sample([f"{_name()}.snap", "--fleet", _file("fleet.yaml", FLEET)])

    def shadow_report(self):
        record = ShadowRecord("2026-11-18T12:00:00.000Z", "req-1", "one", 1, "notification", "same")
        return Sample([_file("shadow.jsonl", f"{record.to_line()}\n")])

    def ledger_audit(self):
        file = f"{_name()}.db"
        Path(file).write_bytes(upgraded_file())
        with sqlite3.connect(file) as connection:
            connection.executescript(LEAK)
        connection.close()
        return Sample(["--fix", "--yes", "--connection", f"sqlite:///{file}"], wrong=(["--known", NOWHERE],))

    def db_upgrade(self):
        return Sample(["--connection", f"sqlite:///{_name()}.db"])

    def db_check(self):
        return Sample(self._database)

    db_version = db_check

    # --- configuration ---

    def config_check(self):
        return Sample(["--config-file", _file("roost.conf", "[DEFAULT]\nhost = here\n")])

    def config_show(self):
        return Sample([])

    config_sample = policy_sample = config_show

    def cloud_check(self):
        return Sample(["--config-file", _file("nova.conf", NOVA)], codes=(1,))

    # --- what runs until it is stopped ---

    def dev(self):
        """On the state of an earlier cloud, which --fresh would remove."""
        state = Path(_name())
        state.mkdir()
        (state / "roost-dev.lock").write_text(f"{os.getpid()}\n")
        (state / "roost.sqlite").write_text("an earlier cloud")
        words = ["--state-dir", str(state), "--fresh", "--port", "0"]
        taken = str(self._cloud.dev.api.address.rpartition(":")[2])
        return Sample(words, ends=False, wrong=(["--ready-file", NOWHERE], ["--port", taken]))

    def cluster_start(self):
        """In the folder of an earlier cluster, which --fresh would remove."""
        words = [*self._cluster(), "--fresh", "--broker", "rabbit://127.0.0.1:1/", "--database", "sqlite:///x.db"]
        return Sample(words, ends=False, wrong=(["--config-file", NOWHERE], ["--uri", "qemu:///system"]))

    def cluster_stop(self):
        return Sample(self._cluster())

    def cluster_restart(self):
        return Sample(["conductor-1", *self._cluster()], ends=False)

    def cluster_status(self):
        return Sample(self._cluster())

    def _cluster(self):
        state = Path(_name())
        (state / "data").mkdir(parents=True)
        (state / "data" / "precious").write_text("an earlier cluster")
        (state / "lock").write_text(f"{os.getpid()}\n")
        (state / "cluster.json").write_text('{"format": 1, "facts": {}, "processes": []}')
        return ["--state-dir", str(state)]

    def service_api(self):
        connection = "[database]\nconnection = sqlite:///none.db\n[DEFAULT]\ntransport_url = rabbit://127.0.0.1:1/\n"
        return Sample(["--config-file", _file("service.conf", connection)], ends=False)

    service_compute = service_conductor = service_scheduler = service_api

    # --- help ---

    def help(self):
        return Sample(["flavor", "create"])

    def complete(self):
        return Sample([])


def _name():
    """A name that nothing else has."""
    return f"sample-{uuid.uuid4().hex[:12]}"


def _file(name, text):
    Path(name).write_text(text)
    return name
