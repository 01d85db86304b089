# SPDX-License-Identifier: Apache-2.0
"""`roost project`, `roost user` and `roost token` on an SQLite file; tests/store has the other databases."""

import re

import pytest
from tests.store.sqlite_template import upgraded_file

from roost.clock import SystemClock
from roost.errors import SignInRefused, TokenRefused
from roost.records.sign_in import SignIn
from roost.records.tokens import TokenStore
from roost.records.users import UNSCOPED
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

ADDRESS = "sqlite:///roost.db"


@pytest.fixture
def people(roost, tmp_path):
    """Commands on a database with the project blue, in which ann is a member."""
    (tmp_path / "roost.db").write_bytes(upgraded_file())
    (tmp_path / "password").write_text("correct horse\nsecond line\n")

    def run(*arguments):
        return roost(*arguments, "--connection", ADDRESS)

    assert run("project", "create", "blue").code == 0
    made = run("user", "create", "ann", "--project", "blue", "--role", "member", "--password-file", "password")
    assert (made.code, made.err) == (0, "")
    return run


@pytest.fixture
def engine(people):
    engine = open_engine(DatabaseOptions(connection=ADDRESS))
    yield engine
    engine.dispose()


def test_a_user_signs_in_with_the_first_line_of_the_file(people, engine):
    caller = SignIn(engine, SystemClock()).with_password("ann", "correct horse", "blue").accepted.caller
    assert caller.roles == {"member", "reader"}


def test_users_are_listed_with_their_roles(people):
    people("user", "set", "ann", "--system", "--role", "reader")
    (ann,) = people("user", "list", "-f", "json").record
    assert (ann["name"], ann["enabled"], ann["roles"]) == ("ann", True, "reader in system, member in blue")
    assert people("user", "show", ann["id"], "-f", "json").record == [ann]
    assert "1 user" in people("user", "list").out


def test_a_user_is_changed(people, engine, tmp_path):
    (tmp_path / "new").write_text("battery staple")
    done = people("user", "set", "ann", "--password-file", "new", "--disable", "--project", "blue", "--role", "none")
    assert done.code == 0
    (ann,) = people("user", "list", "-f", "json").record
    assert (ann["enabled"], ann["roles"]) == (False, "")
    people("user", "set", "ann", "--enable", "--project", "blue", "--role", "admin")
    sign_in = SignIn(engine, SystemClock())
    assert "admin" in sign_in.with_password("ann", "battery staple", "blue").accepted.caller.roles
    with pytest.raises(SignInRefused):
        sign_in.with_password("ann", "correct horse", "blue")


def test_nothing_is_changed_where_one_of_the_names_is_wrong(people):
    done = people("user", "set", "ann", "--disable", "--project", "red", "--role", "admin")
    done.assert_refused("no project 'red'")
    assert people("user", "show", "ann", "-f", "json").record[0]["enabled"] is True


def test_what_is_deleted_is_gone(people):
    assert people("user", "delete", "ann").code == 0
    assert people("project", "delete", "blue").code == 0
    assert people("user", "list", "-f", "json").record == []
    assert people("project", "list", "-f", "json").record == []


def test_a_token_is_shown_once_and_refused_after_it_was_revoked(people, engine):
    made = people("token", "create", "ann", "--project", "blue", "--days", 2, "--description", "backup", "-f", "json")
    secret, token_id = made.record["token"], made.record["id"]
    assert TokenStore(engine, SystemClock()).authenticate(secret).description == "backup"
    listed = people("token", "list", "--user", "ann", "-f", "json")
    assert [(each["id"], each["project"]) for each in listed.record] == [(token_id, "blue")]
    assert secret not in listed.out
    assert people("token", "revoke", token_id).code == 0
    with pytest.raises(TokenRefused):
        TokenStore(engine, SystemClock()).authenticate(secret)
    people("token", "revoke", token_id).assert_refused("there is no token")


def test_a_token_for_no_project_is_listed_and_revoked(people, engine):
    """D27: one of a user who signs in before it chooses a project."""
    issued = SignIn(engine, SystemClock()).with_password("ann", "correct horse", UNSCOPED)
    (listed,) = people("token", "list", "-f", "json").record
    assert (listed["id"], listed["project"], listed["roles"]) == (issued.accepted.id, None, [])
    assert people("token", "revoke", listed["id"]).code == 0
    with pytest.raises(TokenRefused):
        TokenStore(engine, SystemClock()).authenticate(issued.secret)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("project", "create", "blue"), ("already",)),
        (("project", "create", "system"), ("no project can be named",)),
        (("project", "delete", "red"), ("no project 'red'", "project list")),
        (("user", "create", "bob", "--project", "red", "--role", "member"), ("no project 'red'",)),
        (("user", "create", "ann", "--project", "blue", "--role", "member"), ("already",)),
        (("user", "create", "bob", "--project", "blue", "--role", "root"), ("--role", "choose from")),
        (("user", "create", "bob", "--role", "member"), ("--project --system",)),
        (("user", "show", "bob"), ("no user 'bob'",)),
        (("user", "set", "ann"), ("nothing to change",)),
        (("user", "set", "ann", "--role", "admin"), ("--role needs --project or --system",)),
        (("token", "create", "ann", "--system"), ("no role in the system",)),
        (("token", "create", "ann", "--project", "blue", "--days", "0"), ("--days",)),
        (("token", "revoke", "%"), ("no token '%'",)),
    ],
)
def test_wrong_input_is_one_line(people, arguments, words):
    file = ("--password-file", "password") if arguments[:2] == ("user", "create") else ()
    people(*arguments, *file).assert_refused(*words)


def test_a_password_file_that_is_wrong_is_one_line(people, tmp_path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, words in (("nowhere", "nowhere: No such file"), ("empty", "password is empty"), ("binary", "no text")):
        people("user", "set", "ann", "--password-file", name).assert_refused(words)


def test_without_a_terminal_the_password_is_not_asked_for(people, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    people("user", "set", "ann", "--password").assert_refused("no terminal", "--password-file")


def test_the_password_is_asked_for_twice_on_a_terminal(people, monkeypatch, engine):
    answers = iter(["one", "two", "same", "same"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda *_: next(answers))
    people("user", "set", "ann", "--password").assert_refused("two passwords differ")
    assert people("user", "set", "ann", "--password").code == 0
    SignIn(engine, SystemClock()).with_password("ann", "same", "blue")


def test_the_tables_must_be_there(roost, tmp_path):
    (tmp_path / "roost.db").touch()
    roost("user", "list", "--connection", ADDRESS).assert_refused("roost db upgrade", code=4)


def test_the_sample_of_rules_has_each_rule_as_a_comment(roost, tmp_path):
    lines = roost("policy", "sample").out.splitlines()
    rules = roost("policy", "sample", "-f", "json").record
    assert {line[0] for line in lines if line} == {"#"}
    found = dict(match.groups() for line in lines if (match := re.match(r'#"(.+)": "(.+)"$', line)))
    assert found == {rule["name"]: rule["check"] for rule in rules}
    assert found["os_compute_api:servers:index"] == "rule:project_reader_or_admin"
