# SPDX-License-Identifier: Apache-2.0
"""Clients and servers are killed in the middle of their work: a few of the times that `make soak` does it."""

import pytest
from tests.soak.clients import BrokenPromise
from tests.soak.crashing import judge, kill_clients, kill_servers
from tests.store.servers import MariaDB, PostgreSQL

NODE = "node"
HELD = {"a": (NODE, {"VCPU": 1}), "b": (NODE, {"VCPU": 2})}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_what_a_killed_client_claimed_is_there_whole_or_not_at_all(databases, kind):
    assert kill_clients(databases.create(kind), kills=5, seed=1)["kills"] == 5


@pytest.mark.parametrize("kind", [PostgreSQL, MariaDB])
def test_what_was_claimed_outlives_the_server_and_clients_go_on_when_it_is_back(kind):
    server = kind(is_durable=True)
    try:
        assert kill_servers(server, server.create_database("crashing"), kills=2, seed=1)["held"] > 0
    finally:
        server.stop()


# --- the judge can say no ---


def told(*last):
    wanted = {who: list(holding) for who, holding in HELD.items()}
    return [
        [{"word": "claiming", "request": "1", "wanted": wanted}, *({"word": word, "request": "1"} for word in last)]
    ]


@pytest.mark.parametrize(
    ("last", "there"),
    [
        ([], ""),
        ([], "ab"),
        (["claimed"], "ab"),
        (["refused"], ""),
        (["claimed", "releasing"], "ab"),
        (["claimed", "releasing"], ""),
        (["claimed", "releasing", "released"], ""),
    ],
)
def test_what_the_last_words_allow_may_be_there(last, there):
    assert judge(told(*last), {who: HELD[who] for who in there})["requests"] == 1


@pytest.mark.parametrize(
    ("last", "there", "seen"),
    [
        ([], "a", "1 of 2 are there"),
        (["claimed"], "a", "not there are 1: b"),
        (["refused"], "b", "was refused, and holds something"),
        (["claimed", "releasing"], "b", "1 of 2 are there"),
        (["claimed", "releasing", "released"], "ab", "was released, and holds something"),
    ],
)
def test_what_they_do_not_allow_is_named(last, there, seen):
    with pytest.raises(BrokenPromise, match=seen):
        judge(told(*last), {who: HELD[who] for who in there})


def test_strangers_and_wrong_amounts_are_named():
    with pytest.raises(BrokenPromise, match="whom nobody claimed for"):
        judge(told("claimed"), HELD | {"c": HELD["a"]})
    with pytest.raises(BrokenPromise, match="a of request 1 holds"):
        judge(told("claimed"), HELD | {"a": (NODE, {"VCPU": 7})})
