# SPDX-License-Identifier: Apache-2.0
"""A private database and a private message broker on loopback, which outlive the command that started them.

Data is not safe against power loss: this is no place to measure durability.
"""

import shutil
import subprocess

from tests.nova_stack.processes import start, wait_for
from tests.rpc.broker import PROGRAM
from tests.store.servers import free_port, needed

DATABASES = ("nova_api", "nova_cell0", "nova_cell1", "placement")


def database_address(port, name, user="root"):
    return f"mysql+pymysql://{user}@127.0.0.1:{port}/{name}"


def private_folder(directory, name, user):
    folder = directory / "data" / name
    folder.mkdir(exist_ok=True)
    shutil.chown(folder, user, user)
    return folder


def as_user(user, folder):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "env", "-C", folder]


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
    folder, names_port = private_folder(directory, "rabbitmq", "rabbitmq"), free_port()
    settings = {
        "rabbitmq.conf": f"listeners.tcp.default = 127.0.0.1:{port}\n",
        "enabled_plugins": "[].\n",
        ".erlang.cookie": "novastack",
    }
    for name, text in settings.items():
        (folder / name).write_text(text)
        shutil.chown(folder / name, "rabbitmq", "rabbitmq")
    (folder / ".erlang.cookie").chmod(0o400)
    user = as_user("rabbitmq", folder)
    # Erlang's directory of names: the one that the broker would start outlives it.
    start(directory, "broker-names", [*user, needed("epmd"), "-address", "127.0.0.1", "-port", names_port])
    start(directory, "broker", [*user, PROGRAM], broker_environment(folder, port, names_port))


def broker_environment(folder, port, names_port):
    settings = {
        "HOME": folder,
        "RABBITMQ_NODENAME": f"stack{port}@localhost",
        "RABBITMQ_NODE_PORT": port,
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": free_port(),
        "RABBITMQ_MNESIA_BASE": folder / "mnesia",
        "RABBITMQ_LOG_BASE": folder / "log",
        "RABBITMQ_CONFIG_FILE": folder / "rabbitmq",
        "RABBITMQ_ENABLED_PLUGINS_FILE": folder / "enabled_plugins",
        "RABBITMQ_PID_FILE": folder / "pid",
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "ERL_EPMD_PORT": names_port,
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    return {name: str(value) for name, value in settings.items()}
