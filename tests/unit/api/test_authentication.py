# SPDX-License-Identifier: Apache-2.0
"""Who tokens belong to, by option."""

import pytest
from tests.store.sqlite_template import open_upgraded

from roost.api.call import NoAuth, OwnTokens
from roost.api.options import ApiOptions
from roost.api.process import make_authenticator
from roost.clock import SystemClock
from roost.errors import TokenRefused
from roost.nova.keystone import KeystoneTokens
from roost.records.tokens import TokenStore
from roost.records.users import SYSTEM, UserStore


@pytest.fixture
def engine(tmp_path):
    engine = open_upgraded(tmp_path)
    yield engine
    engine.dispose()


@pytest.fixture
def make(engine, tmp_path):
    """Makes an authenticator."""

    def make(strategy, text=""):
        file = tmp_path / "nova.conf"
        file.write_text(f"[keystone_authtoken]\nauth_type = none\nendpoint = http://127.0.0.1:1\n{text}")
        return make_authenticator(ApiOptions(auth_strategy=strategy), engine, [file], SystemClock())

    return make


def test_an_own_token_is_refused_as_soon_as_it_is_revoked(make, engine):
    user = UserStore(engine, SystemClock()).create("ann", None, {SYSTEM: "reader"})
    store = TokenStore(engine, SystemClock())
    secret = store.issue(user.id, SYSTEM, ["reader"], "token", 60).secret
    own = make("roost")
    assert isinstance(own, OwnTokens)
    assert own.authenticate(secret).user_name == "ann"
    store.revoke(secret)
    with pytest.raises(TokenRefused):
        own.authenticate(secret)


@pytest.mark.parametrize(
    ("token", "user", "project"), [("ann:blue", "ann", "blue"), ("notused", "notused", "notused")]
)
def test_without_authentication_everybody_is_an_administrator(make, token, user, project):
    nobody = make("noauth2")
    assert isinstance(nobody, NoAuth)
    caller = nobody.authenticate(token)
    assert (caller.user_id, caller.project_id) == (user, project)
    assert caller.roles == {"admin", "member", "reader"}


def test_keystone_says_where_to_sign_in(make):
    told = make("keystone", "www_authenticate_uri = https://keystone.example.org\n")
    assert isinstance(told, KeystoneTokens)
    assert told.sign_in_address == "https://keystone.example.org"
    assert make("keystone").sign_in_address is None


def test_without_sign_in_a_name_is_no_longer_than_the_database_stores(make):
    assert make("noauth2").authenticate("x" * 255).user_id == "x" * 255
    with pytest.raises(TokenRefused):
        make("noauth2").authenticate("x" * 256)
