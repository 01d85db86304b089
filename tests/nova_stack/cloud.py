# SPDX-License-Identifier: Apache-2.0
"""Start and end a nova cloud.

All it writes is in one directory: configuration, logs, pids, data, and env.json, which says where everything is.
"""

import json
import shutil
import subprocess
import time
from pathlib import Path

import sqlalchemy
from conformance.nova_env import ensure_nova
from tests.nova_stack import config_files, servers
from tests.nova_stack.processes import (
    BIN,
    NOVA_ENV,
    PROGRAMS,
    StackError,
    end,
    listens,
    run,
    start,
    start_program,
    wait_for,
)

from roost.trial.private_servers import free_port

SIZES = "16,32768,500,2"
"""Of the hosts: vcpus, MiB, GB, NUMA cells."""
IMAGE = "00000000-0000-4000-8000-000000000001"
SERVERS = ("broker", "broker-names", "database")
"""Ended last, in this order."""


class Cloud:
    """A cloud in a directory, running or not."""

    def __init__(self, directory):
        self.dir, self._engines = Path(directory).resolve(), {}

    @property
    def env(self):
        """Addresses, tokens, hosts: what a client needs."""
        return json.loads((self.dir / "env.json").read_text())

    def up(self, computes=20, scheduler="nova", sizes=SIZES, extra="", placement_retries=10):
        """Start everything. `extra`: more lines for nova.conf; `sizes`: several, joined with a colon, go round."""
        ensure_nova(NOVA_ENV)
        self._prepare()
        began = time.monotonic()
        ports = {name: free_port() for name in ("database", "broker", "placement", "nova-api", "neighbours")}
        hosts = [f"host{number}" for number in range(computes)]
        self._write_files(ports, extra, placement_retries, {"hosts": hosts, "sizes": sizes, "scheduler": scheduler})
        servers.start_rabbitmq(self.dir, ports["broker"])
        self._start_database(ports["database"])
        wait_for("the broker", lambda: listens(ports["broker"]), self.dir / "pids" / "broker")
        self._start_services(ports)
        self.start_computes(hosts)
        self.discover_hosts()
        self.set_scheduler(scheduler)
        return self.env | {"seconds": round(time.monotonic() - began, 1)}

    def down(self):
        """End exactly what was started, and remove the data; configuration and logs stay."""
        pids = self.dir / "pids"
        end(self.dir, [file.name for file in pids.iterdir() if file.name not in SERVERS] if pids.exists() else [])
        for name in SERVERS:
            end(self.dir, [name])
        for engine in self._engines.values():
            engine.dispose()
        self._engines.clear()
        shutil.rmtree(self.dir / "data", ignore_errors=True)

    # --- parts of up ---

    def _prepare(self):
        if (self.dir / "pids").exists() and any((self.dir / "pids").iterdir()):
            raise StackError(
                f"{self.dir} holds a cloud; end it with: python -m tests.nova_stack down --dir {self.dir}"
            )
        for name in ("data", "computes", "logs", "pids", "locks"):
            shutil.rmtree(self.dir / name, ignore_errors=True)
            (self.dir / name).mkdir(parents=True)
        self.dir.chmod(0o755)
        enter = servers.as_user("mysql", Path("/"), ["test", "-x", str(self.dir)])
        if subprocess.run(enter, check=False).returncode:
            raise StackError(f"{self.dir}: the users of the servers cannot enter it; choose another with --dir")

    def _write_files(self, ports, extra, placement_retries, more):
        url = {name: f"http://127.0.0.1:{ports[name]}" for name in ("placement", "nova-api", "neighbours")}
        databases = {name: servers.database_address(ports["database"], name) for name in servers.DATABASES}
        facts = {
            **databases,
            "filters": config_files.FILTERS,
            "dir": self.dir,
            "placement_url": url["placement"],
            "neighbours": url["neighbours"],
            "transport_url": f"rabbit://guest:guest@127.0.0.1:{ports['broker']}/",
            "extra": extra,
            "placement_retries": placement_retries,
        }
        paste = (NOVA_ENV / "etc/nova/api-paste.ini").read_text()
        env = {
            "api": url["nova-api"] + "/v2.1",
            "token": "admin",
            "placement": url["placement"],
            "placement_token": "admin",
            "transport_url": facts["transport_url"],
            "databases": databases,
            "nova_conf": str(self.dir / "nova.conf"),
            "logs": str(self.dir / "logs"),
            "image": IMAGE,
            **more,
        }
        files = {
            "compute.conf": config_files.NOVA_CONF.format(**facts),
            "nova.conf": (config_files.NOVA_CONF + config_files.NOVA_DATABASES).format(**facts),
            "placement.conf": config_files.PLACEMENT_CONF.format(**facts),
            "api-paste.ini": paste.replace("authtoken keystonecontext", "stackauth keystonecontext")
            + config_files.STACK_AUTH,
            "env.json": json.dumps(env, indent=1),
        }
        for name, text in files.items():
            (self.dir / name).write_text(text)

    def _start_database(self, port):
        """Start the database with all schemas, which the first cloud creates and keeps for the next."""
        kept, data = NOVA_ENV / "schemas", self.dir / "data" / "mariadb"
        if not kept.exists():
            servers.start_mariadb(self.dir, port, is_new=True)
            self._create_schemas()
            end(self.dir, ["database"])
            subprocess.run(["cp", "-a", data, kept], check=True)
        else:
            subprocess.run(["cp", "-a", kept, data], check=True)
        servers.start_mariadb(self.dir, port, is_new=False)
        databases = self.env["databases"]
        for cell, transport in (("cell0", "none:///"), ("cell1", self.env["transport_url"])):
            self.rows(
                "nova_api",
                "update cell_mappings set database_connection = :address, transport_url = :transport"
                " where name = :cell",
                address=databases[f"nova_{cell}"],
                transport=transport,
                cell=cell,
            )

    def _create_schemas(self):
        sync = [BIN / "placement-manage", "--config-file", self.dir / "placement.conf", "db", "sync"]
        run(self.dir, "placement-manage", sync)
        cell0 = f"cell_v2 map_cell0 --database_connection {self.env['databases']['nova_cell0']}"
        self.manage("api_db sync", cell0, "cell_v2 create_cell --name cell1", "db sync")

    def _start_services(self, ports):
        start_program(self.dir, "neighbours", "neighbours.py", ports["neighbours"])
        for name in ("placement", "nova-api"):
            self._serve(name, ports[name])
        start(self.dir, "nova-conductor", [BIN / "nova-conductor", "--config-file", self.dir / "nova.conf"])
        for name in ("placement", "nova-api"):
            wait_for(name, lambda port=ports[name]: listens(port), self.dir / "pids" / name)

    def _serve(self, name, port):
        folders = {"OS_NOVA_CONFIG_DIR": str(self.dir), "OS_PLACEMENT_CONFIG_DIR": str(self.dir)}
        log = self.dir / "logs" / f"{name}.requests"
        start_program(self.dir, name, "serve.py", name, port, log, env=folders)

    def restart_placement(self, retries):
        """Start placement again at the same address, with this `allocation_conflict_retry_count`."""
        end(self.dir, ["placement"])
        address, port = self.env["databases"]["placement"], int(self.env["placement"].rpartition(":")[2])
        text = config_files.PLACEMENT_CONF.format(placement=address, placement_retries=retries)
        (self.dir / "placement.conf").write_text(text)
        self._serve("placement", port)
        wait_for("placement", lambda: listens(port), self.dir / "pids" / "placement")

    # --- computes ---

    def start_computes(self, hosts):
        """Start nova-compute for these hosts and wait until each has reported its node."""
        if not hosts:
            return
        before, name = self._reports(hosts), f"computes-{hosts[0]}"
        start_program(self.dir, name, "many.py", "compute", self.dir, self.env["sizes"], *hosts)

        def have_reported():
            now = self._reports(hosts)
            return len(now) == len(hosts) and all(now[host] != before.get(host) for host in hosts)

        wait_for("the computes", have_reported, self.dir / "pids" / name)

    def _reports(self, hosts):
        """For each of these hosts that is known, when it last reported."""
        names = ",".join(f"'{host}'" for host in hosts)
        return dict(
            self.rows(
                "nova_cell1",
                "select host, updated_at from compute_nodes"
                f" where deleted = 0 and updated_at is not null and host in ({names})",
            )
        )

    def end_compute(self, host):
        """End one nova-compute with kill -9, as when a machine dies."""
        end(self.dir, [f"compute-{host}"], force=True)

    def discover_hosts(self):
        self.manage("cell_v2 discover_hosts")

    # --- schedulers ---

    def set_scheduler(self, which):
        """Start nova-scheduler, or with `none` end it to make room for another."""
        end(self.dir, ["nova-scheduler"])
        if which == "nova":
            self.add_nova_scheduler()
        (self.dir / "env.json").write_text(json.dumps(self.env | {"scheduler": which}, indent=1))
        return {"scheduler": which}

    def add_nova_scheduler(self, name="nova-scheduler", extra=""):
        """Start a nova-scheduler under this name, which is also its host in the services, and wait for its record.

        `extra`: more lines for its configuration.
        """
        own = self.dir / f"{name}.conf"
        own.write_text(f"[DEFAULT]\nhost = {name}\n{extra}")
        known = self._scheduler_reports()
        files = ["--config-file", self.dir / "nova.conf", "--config-file", own]
        start(self.dir, name, [BIN / "nova-scheduler", *files])
        wait_for(name, lambda: self._scheduler_reports() != known, self.dir / "pids" / name)

    def _scheduler_reports(self):
        return self.rows(
            "nova_cell1", "select host, report_count from services where topic = 'scheduler' and deleted = 0"
        )

    def end_process(self, name, force=False):
        """End what was started under this name; `force`: with kill -9."""
        end(self.dir, [name], force=force)

    # --- databases ---

    def manage(self, *commands):
        """Run nova-manage commands in turn."""
        program = [BIN / "python", "-W", "ignore", PROGRAMS / "many.py", "manage", self.dir / "nova.conf"]
        run(self.dir, "nova-manage", program, "\n".join(commands))

    def engine(self, database):
        if database not in self._engines:
            self._engines[database] = sqlalchemy.create_engine(self.env["databases"][database])
        return self._engines[database]

    def rows(self, database, sql, **values):
        """Rows of a query; of another statement, how many rows it changed."""
        with self.engine(database).begin() as connection:
            result = connection.execute(sqlalchemy.text(sql), values)
            return [tuple(row) for row in result.fetchall()] if result.returns_rows else result.rowcount
