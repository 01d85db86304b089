# SPDX-License-Identifier: Apache-2.0
"""Tokens of a Keystone: asked for over HTTP, remembered for a minute by a clock that is turned."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import anyio
import pytest
from anyio import to_thread
from tests.clocks import SleeplessClock
from tests.unit.api.keystone_with_tokens import KeystoneWithTokens

from roost.errors import IdentityUnavailable, OptionError, TokenRefused
from roost.nova import keystone as keystone_tokens
from roost.nova.keystone import open_keystone_tokens
from roost.records.tokens import Caller

USER = {"id": "u1", "name": "ann", "domain": {"id": "default"}}
PROJECT = {"id": "p1", "name": "blue"}


@pytest.fixture
def keystone():
    stub = KeystoneWithTokens()
    yield stub
    stub.close()


@pytest.fixture
def clock():
    return SleeplessClock()


@pytest.fixture
def validator(keystone, clock, tmp_path):
    """Makes a validator from a config file."""

    def make(**changes):
        section = {"auth_type": "v3password", "auth_url": keystone.address, "username": "nova", "password": "right"}
        section |= {"user_domain_name": "Default", "project_name": "service", "project_domain_name": "Default"}
        lines = "".join(f"{name} = {value}\n" for name, value in (section | changes).items())
        file = tmp_path / "nova.conf"
        file.write_text(f"[keystone_authtoken]\n{lines}")
        return open_keystone_tokens([file], clock)

    return make


@pytest.fixture
def record(clock):
    """Makes the record of a token that is valid for an hour."""

    def make(seconds=3600, **changes):
        expires_at = (clock.now() + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"user": USER, "project": PROJECT, "roles": [{"name": "member"}], "expires_at": expires_at} | changes

    return make


def test_the_record_of_a_token_says_who_calls(validator, keystone, record):
    keystone.records["good"] = record()
    assert validator().authenticate("good") == Caller("u1", "ann", "p1", "blue", frozenset({"member"}))


def test_a_token_for_the_system(validator, keystone, record):
    keystone.records["good"] = record(project=None, system={"all": True}, roles=[{"name": "reader"}])
    assert validator().authenticate("good") == Caller("u1", "ann", "", "", frozenset({"reader"}), is_system=True)


def test_keystone_is_asked_once_a_minute(validator, keystone, record, clock):
    keystone.records["good"] = record()
    tokens = validator()
    for seconds in (0, 30, 29):
        clock.sleep(seconds)
        tokens.authenticate("good")
    assert keystone.asked == ["good"]
    del keystone.records["good"]  # revoked
    clock.sleep(1)
    with pytest.raises(TokenRefused):
        tokens.authenticate("good")


def test_a_token_is_not_remembered_beyond_its_end(validator, keystone, record, clock):
    keystone.records["good"] = record(seconds=10)
    tokens = validator()
    tokens.authenticate("good")
    clock.sleep(10)
    with pytest.raises(TokenRefused):
        tokens.authenticate("good")


def test_the_memory_is_bounded(validator, keystone, record, monkeypatch):
    monkeypatch.setattr(keystone_tokens, "MOST_CACHED", 2)
    keystone.records |= dict.fromkeys("abc", record())
    tokens = validator()
    for token in "abcca":
        tokens.authenticate(token)
    assert keystone.asked == ["a", "b", "c", "a"]


@pytest.mark.parametrize("token", ["", "unknown", "a\nb", "\u00fc", "x" * 9000])
def test_what_is_no_token_is_refused(validator, token):
    with pytest.raises(TokenRefused):
        validator().authenticate(token)


def test_a_token_without_a_project_is_refused(validator, keystone, record):
    keystone.records["good"] = record(project=None)
    with pytest.raises(TokenRefused, match="for no project"):
        validator().authenticate("good")


@pytest.mark.parametrize("answer", [(500, {}), (200, {}), (200, b"<html>"), (200, {"token": {"user": 1}}), (300, {})])
def test_a_strange_answer_is_no_refusal(validator, keystone, answer):
    keystone.records["good"] = answer
    with pytest.raises(IdentityUnavailable):
        validator().authenticate("good")


@pytest.mark.parametrize("changes", [{"password": "wrong-one"}, {"auth_url": "http://127.0.0.1:1/v3"}])
def test_without_keystone_nobody_is_let_in_and_no_secret_is_told(validator, keystone, record, changes, caplog):
    keystone.records["a-secret-token"] = record()
    with pytest.raises(IdentityUnavailable) as refused:
        validator(**changes).authenticate("a-secret-token")
    for secret in ("wrong-one", "a-secret-token"):
        assert secret not in str(refused.value) + caplog.text


def test_wrong_options_are_one_line(validator):
    with pytest.raises(OptionError, match=r"\[keystone_authtoken\] auth_type = v3passwrd"):
        validator(auth_type="v3passwrd")


def test_as_many_connections_are_kept_as_threads_check_tokens(validator, keystone, record, caplog):
    """D37: urllib3 warned of each connection that it closed."""
    threads = int(anyio.run(lambda: _as_coroutine(to_thread.current_default_thread_limiter)).total_tokens)
    caplog.set_level(logging.WARNING, "urllib3")
    checks = validator()
    for number in range(threads + 1):
        keystone.records[f"token{number}"] = record()
    checks.authenticate(f"token{threads}")  # signs the service in
    keystone.together = threading.Barrier(threads, timeout=20)
    with ThreadPoolExecutor(threads) as pool:
        callers = list(pool.map(checks.authenticate, [f"token{number}" for number in range(threads)]))
    assert [each.user_id for each in callers] == ["u1"] * threads
    assert [each.getMessage() for each in caplog.records] == []


async def _as_coroutine(function):
    return function()
