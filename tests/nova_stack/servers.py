# SPDX-License-Identifier: Apache-2.0
"""A private database and a private message broker on loopback, which outlive the command that started them.

Data is not safe against power loss: this is no place to measure durability.
"""

import shutil
import subprocess

from tests.nova_stack.processes import start, wait_for
from tests.store.servers import needed

from roost.trial.private_servers import RabbitmqServer, as_user, free_port

DATABASES = ("nova_api", "nova_cell0", "nova_cell1", "placement")


def database_address(port, name, user="root"):
    return f"mysql+pymysql://{user}@127.0.0.1:{port}/{name}"


def private_folder(directory, name, user):
    folder = directory / "data" / name
    folder.mkdir(exist_ok=True)
    shutil.chown(folder, user, user)
    return folder


def start_mariadb(directory, port, is_new):
    """Start MariaDB. `is_new`: with empty databases; else on the data that is there."""
    folder = private_folder(directory, "mariadb", "mysql")
    if is_new:
        install = [needed("mariadb-install-db"), "--no-defaults", "--user=mysql", f"--datadir={folder}/data"]
        install += ["--auth-root-authentication-method=normal", "--skip-test-db", f"--tmpdir={folder}"]
        subprocess.run(install, check=True, capture_output=True)
    files = [
        f"--datadir={folder}/data",
        f"--socket={folder}/socket",
        f"--pid-file={folder}/pid",
        f"--tmpdir={folder}",
    ]
    # nova's tables have keys that are too long for four bytes a character.
    limits = ["--max-connections=2000", "--innodb-flush-log-at-trx-commit=0", "--character-set-server=utf8mb3"]
    address = ["--bind-address=127.0.0.1", f"--port={port}", "--skip-log-bin"]
    start(directory, "database", [needed("mariadbd"), "--no-defaults", "--user=mysql", *files, *address, *limits])
    ask = [needed("mariadb"), "--no-defaults", "-h", "127.0.0.1", "-P", str(port), "-u", "root", "-e"]
    wait_for(
        "the database",
        lambda: subprocess.run([*ask, "select 1"], capture_output=True, check=False).returncode == 0,
        directory / "pids" / "database",
    )
    subprocess.run([*ask, "".join(f"create database if not exists {name};" for name in DATABASES)], check=True)


def start_rabbitmq(directory, port):
    """Start RabbitMQ; ready when the port listens."""
    folder = private_folder(directory, "rabbitmq", "rabbitmq")
    server = RabbitmqServer(folder, port, free_port(), free_port())
    server.write_files("novastack")
    start(directory, "broker-names", as_user(server.user, folder, server.names_command()))
    start(directory, "broker", as_user(server.user, folder, server.command()))
