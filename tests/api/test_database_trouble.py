# SPDX-License-Identifier: Apache-2.0
"""A database that is away or full: every request is told to come again, and none that something is wrong with it."""

import asyncio
import re
import uuid
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
from keystoneauth1 import exceptions
from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from sqlalchemy import event
from tests.api.cloud import PASSWORD, Client, refusal

from roost.api.app import build_app
from roost.api.call import Call, NoAuth, OwnTokens
from roost.api.microversions import NEWEST
from roost.api.process import HttpServer, open_listener
from roost.api.roost.events import EventFeed, EventLog, Stream
from roost.api.routes import ROUTES
from roost.client.rpc_client import RpcClient
from roost.messages.context import RequestContext
from roost.messages.loopback import LoopbackTransport
from roost.messages.options import RpcOptions
from roost.records.decisions import DecisionStore
from roost.records.servers import ServerStore
from roost.records.sign_in import SignIn
from roost.records.tokens import TokenStore
from roost.services.metrics import Metrics
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

AWAY = ("postgresql://roost:hidden@127.0.0.1:1/roost", "mysql://roost:hidden@127.0.0.1:1/roost")
"""Where no database listens."""
READS = [each for each in ROUTES if each.method == "GET" and each.rule is not None]
WITHOUT_DATABASE = {
    "/identity/v3/auth/catalog",
    "/identity/v3/auth/domains",
    "/identity/v3/domains",
    "/identity/v3/domains/{domain_id}",
    "/identity/v3/roles",
    "/identity/v3/roles/{role}",
}


@contextmanager
def serving(cloud, address, authenticator=None):
    """Context with a client of an API whose database is at this address. `authenticator`: None: its own tokens."""
    engine = open_engine(DatabaseOptions(connection=address))
    parts, clock = cloud.dev.api.parts, cloud.dev.clock
    options = replace(parts.options, osapi_compute_listen_port=0)
    parts = replace(
        parts,
        options=options,
        engine=engine,
        authenticator=authenticator or OwnTokens(TokenStore(engine, clock)),
        sign_in=SignIn(engine, clock),
        servers=ServerStore(engine, clock),
    )
    server = HttpServer(build_app(parts, Metrics((), services=("api",))), options, open_listener(options))
    server.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=30) as http:
            yield Client(http, {"X-Auth-Token": "any"})
    finally:
        server.stop()
        engine.dispose()


@pytest.fixture(params=AWAY, ids=["postgresql", "mariadb"], scope="module")
def away(cloud, request):
    with serving(cloud, request.param) as client:
        yield client


@pytest.fixture(scope="module")
def away_after_sign_in(cloud):
    """As with Keystone, which has users and tokens: requests get as far as their handlers."""
    with serving(cloud, AWAY[0], NoAuth()) as client:
        yield client


@pytest.fixture
def full(cloud):
    """The disk of the cloud's database is full: what needs another page of its file is refused by SQLite itself."""

    def begun(connection):
        connection.exec_driver_sql("PRAGMA max_page_count = 1")

    event.listen(cloud.dev.engine, "begin", begun)
    yield
    event.remove(cloud.dev.engine, "begin", begun)
    cloud.dev.engine.dispose()  # each connection has a bound of its own


def check_unavailable(answer, *words):
    """503, when to come again, and a message without addresses and names."""
    status, message = refusal(answer)
    assert (status, answer.headers.get("Retry-After")) == (503, "5")
    assert [each for each in ("hidden", "127.0.0.1", "postgresql", "mysql", "sqlite", "/") if each in message] == []
    assert [each for each in words if each not in message] == []


@pytest.mark.parametrize(
    "path", ["/servers", "/flavors", "/image/v2/images", "/identity/v3/projects", "/roost/v1/hosts"]
)
def test_while_the_database_is_away_no_token_can_be_checked(away, path):
    """D34: without saying when to come again."""
    check_unavailable(away.get(path), "database")


def test_while_the_database_is_away_nobody_signs_in(away):
    """D34: and nobody is told that the password is wrong."""
    user = {"name": "ann", "password": PASSWORD, "domain": {"id": "default"}}
    auth = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    check_unavailable(away.post("/identity/v3/auth/tokens", auth), "database")
    auth = {"auth": {"identity": {"methods": ["token"], "token": {"id": "any"}}}}
    check_unavailable(away.post("/identity/v3/auth/tokens", auth), "database")
    given = {"id": "any", "secret": "guess"}
    auth = {"auth": {"identity": {"methods": ["application_credential"], "application_credential": given}}}
    for _ in range(10):  # what could not be checked is no failure of who asked
        check_unavailable(away.post("/identity/v3/auth/tokens", auth), "database")


def test_clients_of_openstack_say_so_and_when_to_come_again(away):
    """D34: keystoneauth, which all of them use, knows the status and the header."""
    names = {"username": "ann", "password": PASSWORD, "project_name": "ours"}
    domains = {"user_domain_id": "default", "project_domain_id": "default"}
    session = Session(v3.Password(f"{away.http.base_url}/identity/v3", **names, **domains))
    with pytest.raises(exceptions.ServiceUnavailable, match="database") as caught:
        session.get_token()
    assert caught.value.retry_after == 5


@pytest.mark.parametrize("route", READS, ids=lambda route: f"{route.path} {route.oldest}")
def test_every_door_says_so(away_after_sign_in, route):
    """D34: whatever is read, and where."""
    values = {"migration_id": "1", "aggregate_id": "1", "role": "admin", "domain_id": "default"}
    path = re.sub(r"\{(\w+)(:path)?\}", lambda found: values.get(found[1], str(uuid.uuid4())), route.path)
    headers = {"X-Subject-Token": "any"}
    answer = away_after_sign_in.get(path, version=f"compute {route.newest}", headers=headers)
    if route.path in WITHOUT_DATABASE:
        assert answer.status_code == 200
    else:
        check_unavailable(answer, "database")


def test_a_stream_that_is_there_ends_when_the_database_is_away(cloud):
    """D34: without a traceback in the log; its client goes on from its last id."""
    parts = cloud.dev.api.parts
    engine = open_engine(DatabaseOptions(connection=AWAY[0]))
    log = EventLog(engine, DecisionStore(engine, parts.servers.times))
    call = Call(parts, NoAuth().authenticate("any"), NEWEST, "", "", "")

    async def followed():
        return [text async for text in Stream(call, None, "", EventFeed(log, parts.clock), log).run(None)]

    assert asyncio.run(followed()) == []


LONG = {f"key{number}": "v" * 255 for number in range(100)}
"""Does not fit into the pages that a database has."""


def test_a_full_database_is_no_error_of_the_conductor(member, full):
    """D34: what came from a conductor was 500."""
    flavor = member.get("/flavors").json()["flavors"][0]["id"]
    server = {"name": "no room", "flavorRef": flavor, "networks": "none", "metadata": LONG}
    check_unavailable(member.post("/servers", {"server": server}), "database is full")


def test_a_full_database_is_said_to_be_full_where_no_conductor_is_asked(admin, member, full):
    """D34: by images, flavors and aggregates."""
    check_unavailable(member.post("/image/v2/images", {"name": "no room", **LONG}), "database is full")
    flavor = {"name": "no-room", "ram": 1, "vcpus": 1, "disk": 1, "description": "d" * 60_000}
    check_unavailable(admin.post("/flavors", {"flavor": flavor}), "database is full")


def by_messages(cloud):
    """In place of `open_client`: asks the conductor itself."""

    def open_client(settings, files, project, cloud_name):
        context = RequestContext.new("req-1", "admin", "admin", is_admin=True)
        return RpcClient(LoopbackTransport(cloud.state.socket), RpcOptions(), context)

    return open_client


@pytest.mark.parametrize("asks_conductor", [False, True], ids=["api", "messages"])
def test_the_command_says_so_too_and_can_be_tried_again(cloud, roost, full, monkeypatch, asks_conductor):
    """D34: exit code 4, as for a cloud that cannot be reached; by messages it was 3."""
    if asks_conductor:
        monkeypatch.setattr("roost.client.rpc_client.open_client", by_messages(cloud))
    many = ["server", "create", "no-room", "--flavor", "small", "--count", "100", "--no-wait", "--os-cloud", "roost"]
    code, _, problem = roost(*many)
    assert (code, "database is full" in problem) == (4, True), problem
