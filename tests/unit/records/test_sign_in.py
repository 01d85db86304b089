# SPDX-License-Identifier: Apache-2.0
"""Sign-in with a password, a token and an application credential, on SQLite and by a clock that is turned."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from tests.clocks import SleeplessClock
from tests.store.sqlite_template import open_upgraded

from roost.errors import SignInRefused, TokenRefused, TooManyAttempts
from roost.records.application_credentials import ApplicationCredentialStore
from roost.records.sign_in import SignIn
from roost.records.users import SYSTEM, UNSCOPED, ProjectStore, ScryptCost, UserStore

CHEAP = ScryptCost(n=2)


@pytest.fixture
def engine(tmp_path):
    engine = open_upgraded(tmp_path)
    yield engine
    engine.dispose()


@pytest.fixture
def clock():
    return SleeplessClock()


@pytest.fixture
def users(engine, clock):
    return UserStore(engine, clock, CHEAP)


@pytest.fixture
def sign_in(engine, clock, users):
    """A cloud with the projects blue and red; ann is a member of blue, and reads red."""
    for name in ("blue", "red"):
        ProjectStore(engine, clock).create(name)
    users.create("ann", "secret", {"blue": "member", "red": "reader"})
    return SignIn(engine, clock, cost=CHEAP)


@pytest.fixture
def script(engine, clock, users, sign_in):
    """Id and secret of an application credential of ann for blue."""
    blue = ProjectStore(engine, clock).find("blue").id
    made, secret = ApplicationCredentialStore(engine, clock).create(users.find("ann").id, blue, "script")
    return made.id, secret


def test_a_password_gives_a_token_for_the_project(sign_in, users):
    by_name = sign_in.with_password("ann", "secret", "blue").accepted
    assert (by_name.caller.project_name, by_name.method) == ("blue", "password")
    assert by_name.caller.roles == {"member", "reader"}
    by_id = sign_in.with_password(users.find("ann").id, "secret", by_name.caller.project_id)
    assert by_id.accepted.caller == by_name.caller
    assert sign_in.tokens.authenticate(by_id.secret).expires_at - by_id.accepted.issued_at == timedelta(hours=1)


@pytest.mark.parametrize(
    ("user", "password", "scope"),
    [
        ("ann", "Secret", "blue"),
        ("ann", "", "blue"),
        ("nobody", "secret", "blue"),
        ("a\0b", "secret", "blue"),
        ("ann", "secret", "green"),
        ("ann", "secret", SYSTEM),
        ("\ud800", "\ud800", "\ud800"),
    ],
)
def test_all_that_is_wrong_has_one_answer(sign_in, user, password, scope):
    with pytest.raises(SignInRefused, match="the user name, the secret or the project is wrong"):
        sign_in.with_password(user, password, scope)


def test_without_a_project_the_only_one_is_meant(sign_in, users):
    """D27: with several or none of them the token is unscoped."""
    assert sign_in.with_password("ann", "secret", None).accepted.caller.is_unscoped
    users.set_role("ann", "red", None)
    assert sign_in.with_password("ann", "secret", None).accepted.caller.project_name == "blue"
    assert sign_in.with_password("ann", "secret", UNSCOPED).accepted.caller.is_unscoped
    users.set_role("ann", "blue", None)
    assert sign_in.with_password("ann", "secret", None).accepted.caller.is_unscoped


def test_an_unscoped_token_has_no_role_and_is_exchanged_for_one_that_has(sign_in, users, clock):
    """D27: it ends with its user's right to sign in, and what it was exchanged for ends with it at the latest."""
    first = sign_in.with_password("ann", "secret", UNSCOPED)
    assert first.accepted.caller.roles == frozenset()
    assert first.accepted in sign_in.tokens.list_tokens()
    clock.sleep(600)
    second = sign_in.with_token(first.secret, "blue").accepted
    assert (second.caller.project_name, second.expires_at) == ("blue", first.accepted.expires_at)
    users.set_enabled("ann", False)
    with pytest.raises(TokenRefused):
        sign_in.with_token(first.secret, "blue")


def test_a_system_role_is_for_a_token_of_the_system(sign_in, users):
    users.set_role("ann", SYSTEM, "reader")
    caller = sign_in.with_password("ann", "secret", SYSTEM).accepted.caller
    assert (caller.is_system, caller.roles) == (True, {"reader"})


def test_a_disabled_user_is_refused(sign_in, users):
    users.set_enabled("ann", False)
    with pytest.raises(SignInRefused):
        sign_in.with_password("ann", "secret", "blue")


def test_after_five_failures_even_the_right_password_has_to_wait(sign_in, clock, users):
    ann = users.find("ann")
    for name in ("ann", ann.id, "ann", ann.id, "ann"):  # one user, by whatever name
        with pytest.raises(SignInRefused):
            sign_in.with_password(name, "guess", "blue")
    with pytest.raises(TooManyAttempts) as refused:
        sign_in.with_password("ann", "secret", "blue")
    assert refused.value.retry_after_seconds == 1
    clock.sleep(1)
    sign_in.with_password("ann", "secret", "blue")
    with pytest.raises(SignInRefused):
        sign_in.with_password("ann", "guess", "blue")  # the count begins anew


def test_a_token_is_exchanged_for_one_of_another_project_until_its_own_end(sign_in, clock):
    first = sign_in.with_password("ann", "secret", "blue")
    clock.sleep(600)
    second = sign_in.with_token(first.secret, "red").accepted
    assert (second.caller.project_name, second.method) == ("red", "token")
    assert second.expires_at == first.accepted.expires_at
    assert sign_in.with_token(first.secret, None).accepted.caller == first.accepted.caller


def test_a_token_gives_no_rights_that_its_user_has_not(sign_in):
    secret = sign_in.with_password("ann", "secret", "blue").secret
    with pytest.raises(SignInRefused):
        sign_in.with_token(secret, SYSTEM)
    with pytest.raises(TokenRefused):
        sign_in.with_token("guess", "red")


def test_an_application_credential_gives_a_token_for_its_project(sign_in, script):
    by_id = sign_in.with_application_credential(script[1], script[0]).accepted
    by_name = sign_in.with_application_credential(script[1], name="script", user="ann").accepted
    assert by_id.caller == by_name.caller
    assert (by_id.caller.project_name, by_id.method) == ("blue", "application_credential")
    assert by_id.application_credential_id == script[0]


def test_an_application_credential_survives_a_new_password_and_its_tokens_do_not(sign_in, script, users):
    """D36: as in Keystone."""
    held = sign_in.with_application_credential(script[1], script[0]).secret
    users.set_password("ann", "another")
    with pytest.raises(TokenRefused):
        sign_in.tokens.authenticate(held)
    assert sign_in.with_application_credential(script[1], script[0]).accepted.caller.user_name == "ann"


def test_its_token_is_for_no_other_project(sign_in, script):
    secret = sign_in.with_application_credential(script[1], script[0]).secret
    assert sign_in.with_token(secret, "blue").accepted.application_credential_id == script[0]
    with pytest.raises(SignInRefused):
        sign_in.with_token(secret, "red")


@pytest.mark.parametrize(
    "named", [{"credential_id": "x"}, {"name": "script", "user": "bob"}, {"name": "other", "user": "ann"}]
)
def test_a_wrong_application_credential_is_refused_and_counted(sign_in, named):
    for _ in range(5):
        with pytest.raises(SignInRefused):
            sign_in.with_application_credential("guess", **named)
    with pytest.raises(TooManyAttempts):
        sign_in.with_application_credential("guess", **named)


def test_expired_tokens_are_removed_now_and_then(sign_in, clock):
    sign_in.with_password("ann", "secret", "blue")
    clock.sleep(3601)
    sign_in.with_password("ann", "secret", "blue")
    assert sign_in.tokens.prune_expired() == 0


def in_between(monkeypatch, sign_in, change):
    """Have something happen after a proof was looked at, and before its token is written."""
    issue = sign_in.tokens.issue

    def late(*arguments, **more):
        change()
        return issue(*arguments, **more)

    monkeypatch.setattr(sign_in.tokens, "issue", late)


@pytest.mark.parametrize("change", ["set_password", "set_enabled", "delete"])
def test_a_password_that_ends_while_its_token_is_written_gives_none(sign_in, users, monkeypatch, change):
    """D42: the token of the old password outlived the revocation of all tokens."""
    value = {"set_password": ("another",), "set_enabled": (False,), "delete": ()}[change]
    in_between(monkeypatch, sign_in, lambda: getattr(users, change)("ann", *value))
    with pytest.raises(SignInRefused):
        sign_in.with_password("ann", "secret", "blue")
    assert sign_in.tokens.list_tokens() == []


def test_a_token_that_is_revoked_while_it_is_exchanged_gives_none(sign_in, monkeypatch):
    """D42: who had it could keep it for ever."""
    first = sign_in.with_password("ann", "secret", "blue")
    in_between(monkeypatch, sign_in, lambda: sign_in.tokens.revoke(first.secret))
    with pytest.raises(TokenRefused):
        sign_in.with_token(first.secret, "red")
    assert sign_in.tokens.list_tokens() == []


def test_an_application_credential_that_is_deleted_meanwhile_gives_none(
    sign_in, script, engine, clock, users, monkeypatch
):
    """D42: it was an error of the database, and the answer 503."""
    credentials, ann = ApplicationCredentialStore(engine, clock), users.find("ann").id
    in_between(monkeypatch, sign_in, lambda: credentials.delete(ann, "script"))
    with pytest.raises(SignInRefused):
        sign_in.with_application_credential(script[1], script[0])


def test_many_guesses_at_once_are_tried_no_more_often_than_one_after_another(sign_in, script, monkeypatch):
    """D42: twelve were."""
    tried, gate = [], Barrier(5)

    def verify(*given):
        tried.append(given)
        gate.wait(10)

    monkeypatch.setattr(sign_in._credentials, "verify", verify)
    with ThreadPoolExecutor(12) as threads:
        guesses = [threads.submit(sign_in.with_application_credential, "guess", script[0]) for _ in range(12)]
    assert Counter(type(each.exception()) for each in guesses) == {SignInRefused: 5, TooManyAttempts: 7}
    assert len(tried) == 5
