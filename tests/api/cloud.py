# SPDX-License-Identifier: Apache-2.0
"""A cloud in this process with its API on a free port, and clients of it for each kind of caller."""

import random
import threading
from dataclasses import dataclass, field

import httpx

from roost.clock import SystemClock
from roost.records.sign_in import SignIn
from roost.records.users import SYSTEM, ProjectStore, ScryptCost, UserStore
from roost.trial.dev_cloud import DevCloud
from roost.trial.state import StateDirectory

HOSTS = 10
CHEAP = ScryptCost(2**4)
PASSWORD = "a long enough password"
NEWEST = "compute 2.100"
PATIENCE = threading.Event()
"""Never set: what a test waits with."""


@dataclass
class Client:
    """Requests of one caller. A path without a prefix is one of the compute API."""

    http: httpx.Client
    headers: dict[str, str] = field(default_factory=dict)

    def request(self, method, path, json=None, version=NEWEST, **more):
        headers = {
            **self.headers,
            **({"OpenStack-API-Version": version} if version else {}),
            **more.pop("headers", {}),
        }
        prefix = "" if path.startswith(("/v2.1", "/identity", "/image", "/roost")) else "/v2.1"
        return self.http.request(method, f"{prefix}{path}", json=json, headers=headers, **more)

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, json=None, **more):
        return self.request("POST", path, json, **more)

    def put(self, path, json=None, **more):
        return self.request("PUT", path, json, **more)

    def delete(self, path, **more):
        return self.request("DELETE", path, **more)


class ApiCloud:
    """The cloud, with the users `admin`, `member`, `other` (a member of another project) and `reader`."""

    def __init__(self, folder):
        self.state = StateDirectory.open(folder)
        self.dev = DevCloud(
            self.state, HOSTS, clock=SystemClock(), randomness=random.Random(1), usual_hosts=HOSTS, port=0
        )
        self.dev.start()
        self.address = self.dev.api.address
        self.http = httpx.Client(base_url=self.address, timeout=30)
        self.projects = {name: self._project(name) for name in ("ours", "theirs", "admins")}
        self.tokens = {
            "admin": self._token("root", {self.projects["admins"]: "admin"}),
            "member": self._token("ann", {self.projects["ours"]: "member"}),
            "reader": self._token("rea", {self.projects["ours"]: "reader"}),
            "other": self._token("eve", {self.projects["theirs"]: "member"}),
            "system_admin": self._token("sys", {SYSTEM: "admin"}),
            "system_reader": self._token("sysrea", {SYSTEM: "reader"}),
        }

    def _project(self, name):
        return ProjectStore(self.dev.engine, self.dev.clock).create(name).id

    def _token(self, name, roles):
        UserStore(self.dev.engine, self.dev.clock, CHEAP).create(name, PASSWORD, roles)
        scope = next(iter(roles))
        return SignIn(self.dev.engine, self.dev.clock, cost=CHEAP).with_password(name, PASSWORD, scope).secret

    def client(self, user=None):
        """A client of one of the users; without one, it has no token."""
        headers = {"X-Auth-Token": self.tokens[user]} if user else {}
        return Client(self.http, headers)

    def stop(self):
        self.http.close()
        self.dev.stop()
        self.state.close()


def wait_for(condition, what):
    """What the condition returns, once that is true."""
    for _ in range(1000):
        if found := condition():
            return found
        PATIENCE.wait(0.02)
    raise AssertionError(f"waited in vain for {what}")


def refusal(answer):
    """Status and text of an answer that refuses a request."""
    (problem,) = answer.json().values()
    assert problem["code"] == answer.status_code
    return answer.status_code, problem["message"]
