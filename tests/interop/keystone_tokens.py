# SPDX-License-Identifier: Apache-2.0
"""The API with `auth_strategy = keystone` and a real Keystone, whose tokens it validates.

Keystone is of its own environment, with SQLite. Roost has no agents: flavors are all that is asked for.
"""

import os
import secrets
import subprocess
import sys
import time
from contextlib import contextmanager

import requests
import yaml
from conformance.nova_env import ensure_environment
from tests.interop.checks import tell
from tests.interop.openstack_command import OpenStack
from tests.nova_stack.processes import ROOT

from roost.nova.keystone import CACHE_SECONDS
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade
from roost.trial.private_servers import free_port, is_listening

PACKAGES = ("keystone==30.0.0", "waitress")
PROGRAM = ROOT / "tests" / "interop" / "keystone_server.py"
START_SECONDS, ANSWER_SECONDS = 120, 90
FLAVORS = "/v2.1/flavors"
KEYSTONE_CONF = """
[database]
connection = sqlite:///{folder}/keystone.db
[fernet_tokens]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
"""
ROOST_CONF = """
[DEFAULT]
transport_url = rabbit://nobody@127.0.0.1:9/
osapi_compute_listen_port = {port}
[database]
connection = sqlite:///{folder}/roost.db
[api]
auth_strategy = keystone
[roost]
health_port = -1
api_health_port = -1
[keystone_authtoken]
auth_type = password
auth_url = {auth_url}
username = admin
password = {password}
project_name = admin
user_domain_id = default
project_domain_id = default
"""


def run(checks, folder):
    """Tokens that are good, wrong, revoked; and a Keystone that is away."""
    keystone = Keystone(folder)
    keystone.start()
    try:
        with roost_api(folder, keystone) as address:
            see_tokens(checks, keystone, address)
            see_command(checks, folder, keystone, address)
            see_revoked(checks, keystone, address)
            see_away(checks, keystone, address)
    finally:
        keystone.stop()


# --- what is seen ------------------------------------------------------------------------------------


def ask(address, token):
    """Status of a list of flavors, and the headers of the answer."""
    answer = requests.get(address + FLAVORS, headers={"X-Auth-Token": token}, timeout=ANSWER_SECONDS)
    return answer.status_code, answer.headers


def see_tokens(checks, keystone, address):
    status, _ = ask(address, keystone.sign_in())
    checks.see("a token of Keystone is accepted", status == 200, status)
    for what, token in (("a wrong token", "gAAAAA" + secrets.token_hex(60)), ("no token", "")):
        status, headers = ask(address, token)
        told = headers.get("WWW-Authenticate", "")
        checks.see(f"{what} is refused", status == 401, status)
        checks.see("the answer names Keystone", told == f'Keystone uri="{keystone.auth_url}"', told)


def see_command(checks, folder, keystone, address):
    """`openstack` signs in to Keystone, and finds Roost in its catalogue."""
    clouds = folder / "clouds.yaml"
    clouds.write_text(yaml.safe_dump({"clouds": {"roost": {"auth": keystone.login, "identity_api_version": 3}}}))
    openstack = OpenStack(clouds)
    for words in (
        ("service", "create", "--name", "roost", "compute"),
        ("endpoint", "create", "--region", "RegionOne", "compute", "public", f"{address}/v2.1"),
        ("flavor", "create", "by-keystone", "--ram", 512, "--vcpus", 1, "--disk", 1),
        ("flavor", "show", "by-keystone"),
    ):
        done = openstack.run(*words)
        checks.see(" ".join(map(str, words[:2])), done.code == 0, done.said)


def see_revoked(checks, keystone, address):
    token = keystone.sign_in()
    status, _ = ask(address, token)
    keystone.revoke(token)
    revoked = time.monotonic()
    tell(f"a revoked token is noticed within {CACHE_SECONDS:.0f} s")
    while status == 200 and time.monotonic() < revoked + 2 * CACHE_SECONDS:
        time.sleep(1)
        status, _ = ask(address, token)
    seconds = time.monotonic() - revoked
    checks.see(
        "a revoked token is refused in time", status == 401 and seconds < CACHE_SECONDS + 10, f"{seconds:.0f} s"
    )


def see_away(checks, keystone, address):
    known, other = keystone.sign_in(), keystone.sign_in()
    ask(address, known)
    keystone.stop()
    status, _ = ask(address, other)
    checks.see("while Keystone is away, a token that is not known is no fault of the client", status == 503, status)
    status, _ = ask(address, known)
    checks.see("and one that was asked for within the minute is good", status == 200, status)
    keystone.start()
    status, _ = ask(address, other)
    checks.see("when Keystone is back, the other is good, too", status == 200, status)


# --- servers -----------------------------------------------------------------------------------------


class Keystone:
    """A Keystone with an administrator."""

    def __init__(self, folder):
        self._python = ensure_environment(ROOT / "build" / "keystone-env", PACKAGES)
        self._folder, self._config = folder / "keystone", folder / "keystone.conf"
        self._folder.mkdir()
        self._config.write_text(KEYSTONE_CONF.format(folder=self._folder))
        self._port, self._password, self._process = free_port(), secrets.token_hex(8), None
        self.auth_url = f"http://127.0.0.1:{self._port}/v3"
        self.login = {
            "auth_url": self.auth_url,
            "username": "admin",
            "password": self._password,
            "project_name": "admin",
            "user_domain_id": "default",
            "project_domain_id": "default",
        }
        self._set_up()

    def _set_up(self):
        owner = ("--keystone-user", str(os.geteuid()), "--keystone-group", str(os.getegid()))
        urls = ("--bootstrap-public-url", self.auth_url, "--bootstrap-region-id", "RegionOne")
        for words in (
            ("fernet_setup", *owner),
            ("credential_setup", *owner),
            ("db_sync",),
            ("bootstrap", "--bootstrap-password", self._password, *urls),
        ):
            tell(f"keystone-manage {words[0]}")
            manage = self._python.with_name("keystone-manage")
            subprocess.run([manage, "--config-file", self._config, *words], check=True, capture_output=True)

    def start(self):
        """Serve; comes back when it answers."""
        with (self._folder / "log").open("a") as log:
            environment = {**os.environ, "OS_KEYSTONE_CONFIG_FILES": str(self._config)}
            command = [self._python, "-W", "ignore", PROGRAM, str(self._port)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        wait_for(self._process, self._port, self._folder / "log")

    def stop(self):
        self._process.terminate()
        self._process.wait()

    def sign_in(self):
        """A new token of the administrator."""
        domain = {"domain": {"id": "default"}}
        user = {"name": "admin", "password": self._password, **domain}
        scope = {"project": {"name": "admin", **domain}}
        body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
        answer = requests.post(f"{self.auth_url}/auth/tokens", json=body, timeout=ANSWER_SECONDS)
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    def revoke(self, token):
        headers = {"X-Auth-Token": self.sign_in(), "X-Subject-Token": token}
        requests.delete(f"{self.auth_url}/auth/tokens", headers=headers, timeout=ANSWER_SECONDS).raise_for_status()


@contextmanager
def roost_api(folder, keystone):
    """`roost service api` on a new database; its address."""
    port, config, log = free_port(), folder / "roost.conf", folder / "roost.log"
    login = {"auth_url": keystone.auth_url, "password": keystone.login["password"]}
    config.write_text(ROOST_CONF.format(port=port, folder=folder, **login))
    engine = open_engine(DatabaseOptions(connection=f"sqlite:///{folder}/roost.db"), may_create=True)
    upgrade(engine)
    engine.dispose()
    with log.open("w") as out:
        command = [sys.executable, "-m", "roost", "service", "api", "--config-file", str(config)]
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wait_for(process, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def wait_for(process, port, log):
    """Come back when something listens on the port; RuntimeError where the process ends before."""
    give_up = time.monotonic() + START_SECONDS
    while not is_listening(port):
        if process.poll() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"nothing listens on port {port}: see {log}")
        time.sleep(0.1)
