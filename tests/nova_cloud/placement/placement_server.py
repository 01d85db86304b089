# SPDX-License-Identifier: Apache-2.0
"""The real placement, from PyPI, in an environment of its own, on a private PostgreSQL.

The environment is made once, with a dump of the empty schema: `build/placement-env`.
"""

import fcntl
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from sqlalchemy import create_engine, text
from tests.store.servers import PostgreSQL

from roost.store.engine import parse_database_url
from roost.trial.private_servers import find_postgresql, free_port

PACKAGES = ["openstack-placement==16.0.0", "waitress", "psycopg2-binary"]
FOLDER = Path(__file__).resolve().parents[3] / "build" / "placement-env"
SERVE = """
import sys
port = sys.argv.pop()
sys.argv = ["placement"]  # the application parses the command line when it is imported
from placement.wsgi.api import application
import waitress
waitress.serve(application, listen=f"127.0.0.1:{port}", threads=12, connection_limit=500, asyncore_use_poll=True)
"""
START_SECONDS = 60
TABLES = [
    *("allocations", "consumers", "inventories", "placement_aggregates", "resource_provider_aggregates"),
    *("resource_provider_traits", "resource_providers"),
]

_ADD_PROVIDER = """
INSERT INTO resource_providers (id, uuid, name, generation, parent_provider_id, root_provider_id)
    SELECT new.id, :uuid, :name, 1, root.id, coalesce(root.id, new.id)
    FROM (SELECT nextval('resource_providers_id_seq') AS id) new
    LEFT JOIN resource_providers root ON root.uuid = :root
"""
_ADD_INVENTORY = """
INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size,
    allocation_ratio) SELECT p.id, c.id, :total, 0, 1, :total, 1, 1.0
    FROM resource_providers p, resource_classes c WHERE p.uuid = :uuid AND c.name = :class
"""


def run(*command, **more):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ensure_environment(server):
    """Install placement and dump its schema, where that was not done yet; one process does, others wait."""
    contents = "\n".join([*PACKAGES, sys.version])
    FOLDER.parent.mkdir(exist_ok=True)
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = FOLDER / ".ready"
        if ready.exists() and ready.read_text() == contents:
            return
        run(sys.executable, "-m", "venv", "--clear", FOLDER)
        uv = Path(sys.executable).with_name("uv")
        pip = (
            [uv, "pip", "install", "--python", FOLDER / "bin/python"]
            if uv.exists()
            else [FOLDER / "bin/pip", "install"]
        )
        run(*pip, "-q", *PACKAGES)
        config = FOLDER / "schema.conf"
        config.write_text(config_text(server.create_database("placement_schema")))
        run(FOLDER / "bin/placement-manage", "--config-file", config, "db", "sync")
        address = ["-h", "127.0.0.1", "-p", server.port, "-U", "postgres"]
        schema = run(find_postgresql() / "pg_dump", *address, "--no-owner", "placement_schema")
        (FOLDER / "schema.sql").write_text(schema)
        ready.write_text(contents)


def config_text(database, more=""):
    address = database.replace("postgresql://", "postgresql+psycopg2://")
    return f"[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = {address}\n{more}"


class PlacementServer:
    """One placement with its own empty database; the token `admin` is an administrator's."""

    def __init__(self, folder):
        self.database = PostgreSQL()
        ensure_environment(self.database)
        address = self.database.create_database("placement")
        self._engine = create_engine(parse_database_url(address))
        login = ["-h", "127.0.0.1", "-p", self.database.port, "-U", "postgres", "-d", "placement"]
        run(find_postgresql() / "psql", "-q", *login, "-f", FOLDER / "schema.sql")
        (folder / "placement.conf").write_text(config_text(address))
        self.port = free_port()
        self.log = folder / "placement.log"
        command = [str(FOLDER / "bin/python"), "-c", SERVE, str(self.port)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | {"OS_PLACEMENT_CONFIG_DIR": str(folder)}
            )
        self._wait()

    def _wait(self):
        give_up = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5).close()
                return
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < give_up, self.log.read_text()
                threading.Event().wait(0.05)

    def clear(self):
        """Remove all providers and allocations: faster than a request for each."""
        with self._engine.begin() as connection:
            connection.execute(text(f"TRUNCATE {', '.join(TABLES)}"))

    def add_providers(self, providers):
        """Add many providers in a moment, each (uuid, name, uuid of the root or None, {class: total})."""
        with self._engine.begin() as connection:
            for uuid, name, root, _ in providers:
                connection.execute(text(_ADD_PROVIDER), {"uuid": uuid, "name": name, "root": root})
            rooms = [
                {"uuid": uuid, "class": name, "total": total}
                for uuid, _, _, room in providers
                for name, total in room.items()
            ]
            connection.execute(text(_ADD_INVENTORY), rooms)

    def stop(self):
        self._engine.dispose()
        self.process.terminate()
        self.process.wait(timeout=START_SECONDS)
        self.database.stop()
