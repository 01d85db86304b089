# SPDX-License-Identifier: Apache-2.0
"""/roost/v1/events: decisions and changes of hosts as they happen, and a lost connection that is resumed."""

import socket
from collections import Counter
from contextlib import ExitStack

import pytest
from tests.api.cloud import wait_for
from tests.api.event_stream import about, first_of, followed
from tests.api.placed import HUGE, create

from roost.api.roost import events
from roost.records.tokens import TokenStore
from roost.records.users import UserStore

NO_VALID_HOST = "No valid host was found. There are not enough hosts available."
PATH = "/roost/v1/events"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(events, "POLL_SECONDS", 0.05)


def request_of(admin, server):
    return admin.get(f"/roost/v1/decisions?server={server}").json()["decisions"][0]["request_id"]


def test_an_administrator_is_told_of_decisions_and_hosts(admin, cloud):
    with followed(admin) as told:
        next(told)
        server = create(cloud, "ours")
        request = request_of(admin, server)
        first = {}
        while len(first) < 2:  # in either order
            each = next(told)
            if each.kind == "host" or (each.kind == "decision" and each.data["request_id"] == request):
                first.setdefault(each.kind, each.data)
        assert first["decision"] == admin.get(f"/roost/v1/decisions?server={server}").json()["decisions"][0]
        assert first["host"]["host"] in {each["host"] for each in admin.get("/roost/v1/hosts").json()["hosts"]}


def test_a_member_is_told_of_the_own_project_alone_in_novas_words(admin, member, cloud):
    with followed(member) as told:
        next(told)
        create(cloud, "theirs")
        own = create(cloud, "ours", HUGE)
        found = first_of(told, "decision")
    assert found.data["request_id"] == request_of(admin, own)
    assert found.data["summary"] == NO_VALID_HOST
    assert "hosts" not in found.data


def test_a_lost_connection_is_resumed_without_loss_and_without_repeats(admin, cloud):
    with followed(admin) as told:
        next(told)
        first = request_of(admin, create(cloud, "ours"))
        (seen,) = about(told, first)
    missed = [request_of(admin, create(cloud, "ours")) for _ in range(2)]
    with followed(admin, seen.id) as told:
        later = request_of(admin, create(cloud, "ours"))
        found = []
        while not found or found[-1].data["request_id"] != later:
            found.append(first_of(told, "decision"))
    requests = [each.data["request_id"] for each in found]
    assert first not in requests
    assert [each for each in requests if each in (*missed, later)] == [*missed, later]
    assert len({each.data["id"] for each in found}) == len(found)


def test_a_client_that_missed_what_is_gone_is_told_so(admin, cloud):
    create(cloud, "ours")
    with followed(admin, "d999999.c1") as told:
        assert first_of(told, "lost").data == {"message": events.LOST}
        server = create(cloud, "ours")
        assert about(told, request_of(admin, server))


def test_a_client_that_missed_too_much_is_told_so(admin, cloud, monkeypatch):
    monkeypatch.setattr(events, "MOST_REPLAYED", 0)
    create(cloud, "ours")
    with followed(admin, "d0.c0") as told:
        assert first_of(told, "lost")


def test_an_id_that_is_none_is_refused(admin):
    answer = admin.get(PATH, headers={"Last-Event-ID": "yesterday"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)


@pytest.mark.parametrize("bound", ["MOST_STREAMS", "MOST_OF_ONE"])
def test_beyond_the_bound_of_streams_the_answer_says_when_to_come_again(admin, monkeypatch, bound):
    monkeypatch.setattr(events, bound, 1)
    with followed(admin) as told:
        next(told)
        answer = admin.get(PATH)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")


def test_of_many_streams_that_begin_at_once_a_user_gets_ten(cloud):
    """D42: all 40 found room, as none of them had taken it yet when they looked."""
    token = cloud.tokens["other"]
    head = f"GET {PATH} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\n\r\n".encode()
    with ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection(("127.0.0.1", cloud.dev.api.port))) for _ in range(40)]
        for line in lines:
            line.sendall(head)
        answers = [line.recv(12).decode() for line in lines]
    assert Counter(answers) == {"HTTP/1.1 200": 10, "HTTP/1.1 503": 30}
    client = cloud.client("other")
    wait_for(lambda: all_begin(client, 10), "the end of the streams")


def all_begin(client, count):
    """Whether that many streams of a user can be there at once."""
    with ExitStack() as stack:
        streams = [stack.enter_context(client.http.stream("GET", PATH, headers=client.headers)) for _ in range(count)]
        return all(each.status_code == 200 for each in streams)


def test_a_stream_ends_when_its_token_is_revoked(cloud, monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.0)
    token = cloud._token("short", {cloud.projects["ours"]: "member"})
    client = cloud.client()
    client.headers["X-Auth-Token"] = token
    with followed(client) as told:
        next(told)
        TokenStore(cloud.dev.engine, cloud.dev.clock).revoke(token)
        assert list(told) == []


def test_a_stream_ends_when_the_rights_of_its_user_change(cloud, monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.0)
    client, project = cloud.client(), cloud.projects["ours"]
    client.headers["X-Auth-Token"] = cloud._token("demoted", {project: "member"})
    with followed(client) as told:
        next(told)
        UserStore(cloud.dev.engine, cloud.dev.clock).set_role("demoted", project, "reader")
        assert list(told) == []


def test_streams_end_when_the_service_stops(admin, cloud):
    with followed(admin) as told:
        next(told)
        cloud.dev.api.parts.is_stopping.set()
        try:
            assert list(told) == []
        finally:
            cloud.dev.api.parts.is_stopping.clear()


def test_a_stream_that_joins_gets_what_the_others_got_before(admin, cloud):
    with followed(admin) as early:
        begin = next(early).id
        first = request_of(admin, create(cloud, "ours"))
        (seen,) = about(early, first)
        with followed(admin, begin) as late:
            last = request_of(admin, create(cloud, "ours"))
            assert [each.data for each in about(late, first, last)] == [seen.data, about(early, last)[0].data]
