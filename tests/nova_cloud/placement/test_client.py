# SPDX-License-Identifier: Apache-2.0
"""One call of placement: headers, tokens, limits, and what goes wrong."""

import logging
import threading
import uuid

import pytest
from tests.nova_cloud.placement.keystone_stub import KeystoneStub

from roost.errors import (
    PlacementBadRequest,
    PlacementError,
    PlacementNotFound,
    PlacementRefused,
    PlacementUnavailable,
)
from roost.nova.placement.client import PlacementClient, make_adapter
from roost.services.logs import bound
from roost.trial.private_servers import free_port

PATH = "/resource_providers"


def failure(kind, call, *arguments):
    with pytest.raises(kind) as caught:
        call(*arguments)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_call_names_version_token_and_request(cloud):
    with bound(request_id="req-1234"):
        cloud.client.get(PATH)
        cloud.client.map(cloud.client.get, [PATH, PATH])
    cloud.client.get(PATH)
    headers = [each.headers for each in cloud.proxy.seen]
    assert headers[0]["OpenStack-API-Version"] == "placement 1.36"
    assert headers[0]["X-Auth-Token"] == "admin"
    assert [each.get("X-Openstack-Request-Id") for each in headers] == ["req-1234"] * 3 + [None]


def test_a_request_id_that_is_no_header_is_not_sent(cloud):
    with bound(request_id="req\r\nX-Auth-Token: other"):
        cloud.client.get(PATH)
    assert "X-Openstack-Request-Id" not in cloud.proxy.seen[0].headers


def test_a_token_that_expired_is_renewed_once(cloud):
    cloud.proxy.add("GET", PATH, status=401, executes=False)
    assert "resource_providers" in cloud.client.get(PATH)


def test_a_token_that_is_refused_twice_is_an_error(cloud):
    cloud.proxy.add("GET", PATH, times=9, status=401, executes=False)
    assert "answered 401" in failure(PlacementRefused, cloud.client.get, PATH)
    assert len(cloud.proxy.seen) == 2


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_error_is_unavailable(cloud, status):
    cloud.proxy.add("GET", PATH, status=status, body=b"<html>", executes=False)
    assert f"GET {PATH}: placement answered {status}" in failure(PlacementUnavailable, cloud.client.get, PATH)


def test_a_get_whose_connection_broke_is_repeated(cloud):
    cloud.proxy.add("GET", PATH, executes=False)
    assert "resource_providers" in cloud.client.get(PATH)


def test_a_write_whose_connection_broke_is_not_repeated(cloud):
    cloud.proxy.add("PUT", PATH, executes=False)
    failure(PlacementUnavailable, cloud.client.put, PATH, {})
    assert len(cloud.proxy.seen) == 1


def test_no_placement_is_unavailable_and_says_where(cloud):
    port = free_port()
    client = cloud.open_client(port)
    assert f"no connection at 127.0.0.1:{port}: Connection refused" in failure(PlacementUnavailable, client.get, PATH)


def test_a_slow_placement_is_unavailable(cloud):
    client, done = cloud.open_client(cloud.proxy.port, read_seconds=0.1), threading.Event()
    cloud.proxy.add("GET", PATH, before=done.wait)
    assert "in time" in failure(PlacementUnavailable, client.get, PATH)
    done.set()


def test_what_is_not_there_is_not_found(cloud):
    assert "No resource provider" in failure(PlacementNotFound, cloud.client.get, f"{PATH}/{uuid.uuid4()}")


def test_a_wrong_request_says_what_placement_said(cloud):
    query = [("resources", "CUSTOM_NOPE:1")]
    assert "No such resource class" in failure(PlacementBadRequest, cloud.client.get, "/allocation_candidates", query)


@pytest.mark.parametrize("body", [b"<html>", b"[1]"])
def test_an_answer_that_is_no_json_object_is_an_error(cloud, body):
    cloud.proxy.add("GET", PATH, status=200, body=body, executes=False)
    assert "no JSON object" in failure(PlacementError, cloud.client.get, PATH)


def test_an_answer_that_is_too_long_is_an_error(cloud):
    client = cloud.open_client(cloud.real_port, answer_limit_bytes=10)
    assert "exceeds 10 bytes" in failure(PlacementError, client.get, PATH)


def test_each_call_is_reported_by_kind_of_path(cloud):
    told = []
    client = cloud.open_client(cloud.proxy.port, statistics=lambda *each: told.append(each))
    cloud.proxy.add("PUT", "/allocations", executes=False)
    client.get("/allocation_candidates", [("resources", "VCPU:1")])
    with pytest.raises(PlacementUnavailable):
        client.put(f"/allocations/{uuid.uuid4()}", {})
    assert [each[:3] for each in told] == [("GET", "/allocation_candidates", 200), ("PUT", "/allocations/{uuid}", 0)]
    assert told[0][3] > 0


def test_seconds_are_counted_per_thread_and_parallel_calls_once(cloud):
    ticks = iter(range(100))
    client = cloud.open_client(cloud.real_port, clock=lambda: next(ticks))
    client.map(client.get, [PATH] * 3)
    assert 0 < client.seconds < 20  # from the first to the last tick, not the sum of three calls
    other = []
    thread = threading.Thread(target=lambda: other.append(client.seconds))
    thread.start()
    thread.join()
    assert other == [0]


def test_no_token_is_logged(cloud, caplog):
    caplog.set_level(logging.DEBUG)
    file = cloud.config(cloud.proxy.port)
    file.write_text(file.read_text().replace("token = admin", "token = not-to-be-seen"))
    client = PlacementClient(make_adapter([file]))
    text = failure(PlacementRefused, client.post, "/allocations", {})
    client.close()
    assert cloud.proxy.seen[-1].headers["X-Auth-Token"] == "not-to-be-seen"
    assert "not-to-be-seen" not in caplog.text + text


class TestKeystone:
    @pytest.fixture
    def keystone(self, cloud):
        stub = KeystoneStub(f"http://127.0.0.1:{cloud.proxy.port}", "right")
        yield stub
        stub.close()

    @pytest.fixture
    def open_client(self, cloud, keystone, tmp_path):
        def make(**changes):
            user = {"username": "nova", "user_domain_name": "Default", "project_name": "service"}
            section = {"auth_type": "password", "auth_url": keystone.address, "password": "right", **user}
            section |= {"project_domain_name": "Default", "region_name": "east"} | changes
            lines = "".join(f"{name} = {value}\n" for name, value in section.items())
            file = tmp_path / "keystone.conf"
            file.write_text(f"[placement]\n{lines}")
            cloud.clients.append(PlacementClient(make_adapter([file])))
            return cloud.clients[-1]

        return make

    def test_token_and_endpoint_come_from_keystone(self, open_client, keystone):
        client = open_client(auth_type="v3password")
        assert "resource_providers" in client.get(PATH)
        assert "resource_providers" in client.get(PATH)
        assert keystone.tokens == 1

    def test_a_token_that_expired_is_fetched_again(self, open_client, keystone, cloud):
        client = open_client(auth_type="v3password")
        cloud.proxy.add("GET", PATH, status=401, executes=False)
        assert "resource_providers" in client.get(PATH)
        assert keystone.tokens == 2

    def test_a_wrong_password_is_refused_and_not_repeated_in_the_error(self, open_client):
        client = open_client(auth_type="v3password", password="wrong-one")
        text = failure(PlacementRefused, client.get, PATH)
        assert "keystone" in text
        assert "401" in text
        assert "wrong-one" not in text

    def test_a_region_without_placement_is_unavailable(self, open_client):
        client = open_client(auth_type="v3password", region_name="west")
        assert "no endpoint of placement" in failure(PlacementUnavailable, client.get, PATH)

    def test_no_keystone_is_unavailable_and_says_where(self, open_client):
        port = free_port()
        client = open_client(auth_type="v3password", auth_url=f"http://127.0.0.1:{port}/v3")
        assert f"127.0.0.1:{port}" in failure(PlacementUnavailable, client.get, PATH)
