# SPDX-License-Identifier: Apache-2.0
"""Placement as `roost cloud check` finds it."""

import json
import socket

import pytest
from tests.nova_cloud.placement.keystone_stub import KeystoneStub

from roost.nova.check import READ_SECONDS, survey_placement
from roost.nova.surveys import FAILED, OK
from roost.trial.private_servers import free_port


@pytest.fixture
def survey(tmp_path):
    """A survey with these options in [placement]."""

    def run(**options):
        file = tmp_path / "nova.conf"
        written = {"auth_type": "admin_token", "token": "admin"} | options
        file.write_text("[placement]\n" + "".join(f"{name} = {value}\n" for name, value in written.items()))
        return survey_placement([file])

    return run


def at(port):
    return f"http://127.0.0.1:{port}"


def rows(found):
    return [(each.what, each.result) for each in found.results]


def test_a_placement_that_works(survey, cloud):
    provider = cloud.add()
    found = survey(endpoint=at(cloud.proxy.port))
    assert rows(found) == [("endpoint", OK), ("providers", OK)]
    assert f"{at(cloud.proxy.port)}, version 1.36 of 1.0 to " in found.results[0].details
    assert found.results[1].details == "the token is accepted; 1 providers"
    assert found.providers == {provider}
    assert {each.method for each in cloud.proxy.seen} == {"GET"}


def test_a_token_without_rights(survey, cloud):
    found = survey(endpoint=at(cloud.real_port), token="hush-token")
    assert rows(found) == [("endpoint", OK), ("token", FAILED)]
    assert "placement answered 403" in found.results[1].details
    assert "roles" in found.results[1].remedy
    assert "hush" not in str(found.results)


def test_a_token_that_is_not_accepted(survey, cloud):
    cloud.proxy.add("GET", "/resource_providers", times=2, status=401)
    found = survey(endpoint=at(cloud.proxy.port))
    assert rows(found) == [("endpoint", OK), ("token", FAILED)]
    assert found.providers is None


def test_a_placement_that_is_down(survey):
    found = survey(endpoint=f"http://nova:hush@127.0.0.1:{free_port()}/placement")
    assert rows(found) == [("endpoint", FAILED)]
    assert "Connection refused" in found.results[0].details
    assert "is it running" in found.results[0].remedy
    assert "hush" not in str(found.results)


def test_a_placement_that_does_not_answer_takes_limited_time(survey, monkeypatch):
    assert READ_SECONDS < 60
    monkeypatch.setattr("roost.nova.check.READ_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = survey(endpoint=at(silent.getsockname()[1]))
    assert rows(found) == [("endpoint", FAILED)]
    assert "in time" in found.results[0].details


def test_a_placement_that_is_too_old(survey, cloud):
    versions = {"versions": [{"id": "v1.0", "min_version": "1.0", "max_version": "1.28"}]}
    cloud.proxy.add("GET", "/", status=200, body=json.dumps(versions).encode())
    found = survey(endpoint=at(cloud.proxy.port))
    assert rows(found) == [("version", FAILED)]
    assert "has versions 1.0 to 1.28; 1.36 is needed" in found.results[0].details


@pytest.mark.parametrize("body", [b"{}", b'{"versions": []}', b'{"versions": [{"min_version": 1}]}'])
def test_something_else_that_answers_there(survey, cloud, body):
    cloud.proxy.add("GET", "/", status=200, body=body)
    found = survey(endpoint=at(cloud.proxy.port))
    assert "that is not placement" in found.results[0].details


def test_an_answer_without_providers(survey, cloud):
    cloud.proxy.add("GET", "/resource_providers", status=200, body=b'{"resource_providers": 1}')
    assert rows(survey(endpoint=at(cloud.proxy.port))) == [("endpoint", OK), ("providers", FAILED)]


def test_providers_that_cannot_be_read(survey, cloud):
    cloud.proxy.add("GET", "/resource_providers", status=500)
    assert rows(survey(endpoint=at(cloud.proxy.port))) == [("endpoint", OK), ("providers", FAILED)]


def test_a_section_that_is_wrong(survey):
    (row,) = survey(auth_type="pasword").results
    assert (row.what, row.result, row.remedy) == ("options", FAILED, "did you mean password?")


@pytest.mark.parametrize(("password", "expected"), [("right", ("endpoint", OK)), ("hush-wrong", ("token", FAILED))])
def test_keystone_gives_the_token(survey, cloud, password, expected):
    keystone = KeystoneStub(at(cloud.real_port), "right")
    login = {"auth_type": "password", "auth_url": keystone.address, "username": "nova", "user_domain_id": "default"}
    try:
        found = survey(**login, password=password, project_name="service", project_domain_id="default")
    finally:
        keystone.close()
    assert rows(found)[0] == expected, found
    assert "hush" not in str(found.results)
