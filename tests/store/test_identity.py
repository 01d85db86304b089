# SPDX-License-Identifier: Apache-2.0
"""Users, projects, tokens and application credentials on all databases."""

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import delete, select, update

from roost.clock import SystemClock
from roost.errors import BadInput, Conflict, Forbidden, TokenRefused, UnknownName
from roost.records.application_credentials import ApplicationCredentialStore
from roost.records.tokens import PASSWORD, TokenStore, digest_of
from roost.records.users import SYSTEM, UNSCOPED, ProjectStore, ScryptCost, UserStore, verify_password
from roost.store.schema.access import application_credentials, role_assignments, tokens
from roost.store.schema.access import users as stored_users
from roost.store.transactions import writing

NUMBERS = itertools.count(1)
CHEAP = ScryptCost(n=2)


@pytest.fixture
def projects(current):
    return ProjectStore(current, SystemClock())


@pytest.fixture
def users(current):
    return UserStore(current, SystemClock(), CHEAP)


@pytest.fixture
def token_store(current):
    return TokenStore(current, SystemClock())


@pytest.fixture
def credentials(current):
    return ApplicationCredentialStore(current, SystemClock())


@pytest.fixture
def project(projects):
    return projects.create(f"project-{next(NUMBERS)}")


@pytest.fixture
def ann(users, project):
    """A member of the project."""
    return users.create(f"ann-{next(NUMBERS)}", "secret", {project.name: "member"})


@pytest.fixture
def issue(token_store, ann, project):
    """Issues a token for what ann may do in the project."""

    def issue(target=None, roles=("member",), lifetime_seconds=3600.0, **more):
        return token_store.issue(ann.id, target or project.id, roles, PASSWORD, lifetime_seconds, **more)

    return issue


# --- projects ----------------------------------------------------------------------------------------


def test_a_project_is_found_by_name_and_by_id_in_any_spelling(projects, project):
    assert projects.find(project.name) == project
    assert projects.find(project.id.replace("-", "").upper()) == project
    assert project in projects.list_projects()
    assert abs(project.created_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_name_that_is_taken_is_a_conflict(projects, project, users, ann):
    with pytest.raises(Conflict, match="already"):
        projects.create(project.name)
    with pytest.raises(Conflict, match="already"):
        users.create(ann.name, "pw", {})


@pytest.mark.parametrize("name", ["", " p", "p\n", "a\0b", "\ud800", "x" * 256, SYSTEM])
def test_what_cannot_be_a_name_is_refused(projects, name):
    with pytest.raises(BadInput):
        projects.create(name)
    with pytest.raises(UnknownName):
        projects.find(name)


def test_a_deleted_project_takes_roles_and_tokens_along(projects, project, users, ann, issue, token_store):
    secret = issue().secret
    projects.delete(project.name)
    with pytest.raises(TokenRefused):
        token_store.authenticate(secret)
    assert users.list_assignments(ann.id) == []
    with pytest.raises(UnknownName, match="no project"):
        projects.find(project.id)


# --- users -------------------------------------------------------------------------------------------


def test_a_user_has_the_password_and_the_roles_it_was_made_with(users, ann, project):
    found, stored = users.find_login(ann.name)
    assert found == ann
    assert verify_password("secret", stored)
    assert users.read_roles(ann.id) == {project.id: {"member"}}
    assert [each[2:] for each in users.list_assignments(ann.id)] == [(project.name, "member")]


def test_nothing_is_written_of_a_user_whose_project_does_not_exist(users):
    with pytest.raises(UnknownName, match="no project 'nowhere'"):
        users.create("lost", "pw", {"nowhere": "member"})
    assert users.find_login("lost") == (None, None)


def test_a_user_without_a_password_cannot_have_one_guessed(users):
    name = users.create(f"robot-{next(NUMBERS)}", None, {SYSTEM: "reader"}).name
    assert users.find_login(name)[1] is None


def test_the_last_role_that_was_set_counts(users, ann, project):
    users.set_role(ann.name, project.id, "admin")
    users.set_role(ann.name, SYSTEM, "reader")
    assert users.read_roles(ann.id) == {project.id: {"admin"}, SYSTEM: {"reader"}}
    users.set_role(ann.name, project.id, None)
    assert users.read_roles(ann.id) == {SYSTEM: {"reader"}}
    with pytest.raises(BadInput, match="no role"):
        users.set_role(ann.name, project.id, "root")


def test_a_deleted_user_is_gone_with_tokens_and_credentials(users, ann, issue, credentials, project, token_store):
    secret = issue().secret
    credentials.create(ann.id, project.id, "script")
    users.delete(ann.name)
    with pytest.raises(TokenRefused):
        token_store.authenticate(secret)
    assert credentials.list_credentials(ann.id) == []
    assert ann not in users.list_users()


# --- tokens ------------------------------------------------------------------------------------------


def test_an_unscoped_token_says_who_calls_and_gives_no_role(token_store, ann, users):
    """D27: on every database, until its user is disabled."""
    issued = token_store.issue(ann.id, UNSCOPED, (), PASSWORD, 3600.0)
    caller = token_store.authenticate(issued.secret).caller
    assert (caller.user_id, caller.project_id, caller.roles, caller.is_unscoped) == (ann.id, "", frozenset(), True)
    assert issued.accepted in token_store.list_tokens(ann.id)
    users.set_enabled(ann.name, False)
    with pytest.raises(TokenRefused):
        token_store.authenticate(issued.secret)


def test_a_token_says_who_calls(issue, token_store, ann, project):
    issued = issue(roles=("member",), description="backup")
    accepted = token_store.authenticate(issued.secret)
    caller = accepted.caller
    assert accepted == issued.accepted
    assert (caller.user_id, caller.user_name) == (ann.id, ann.name)
    assert (caller.project_id, caller.project_name, caller.is_system) == (project.id, project.name, False)
    assert caller.roles == {"member", "reader"}
    assert (accepted.method, accepted.description) == (PASSWORD, "backup")
    assert accepted.expires_at - accepted.issued_at == timedelta(hours=1)


def test_the_secret_is_neither_stored_nor_shown(issue, current):
    issued = issue()
    with current.connect() as connection:
        row = connection.execute(select(tokens).where(tokens.c.digest == digest_of(issued.secret))).one()
    assert issued.secret not in repr(row)
    assert issued.secret not in repr(issued)


def test_a_token_for_the_system(users, ann, issue):
    users.set_role(ann.id, SYSTEM, "admin")
    caller = issue(SYSTEM, ("admin",)).accepted.caller
    assert (caller.is_system, caller.project_id) == (True, "")
    assert caller.roles == {"admin", "member", "reader"}


@pytest.mark.parametrize("secret", ["", "x", "\0", "\ud800", "x" * 100_000])
def test_an_unknown_token_is_refused(token_store, secret):
    with pytest.raises(TokenRefused):
        token_store.authenticate(secret)


def test_an_expired_token_is_refused_and_pruned(issue, token_store, current):
    secret = issue().secret
    expire(current, secret)
    with pytest.raises(TokenRefused):
        token_store.authenticate(secret)
    assert digest_of(secret) not in [each.digest for each in token_store.list_tokens()]
    assert token_store.prune_expired() == 1
    assert token_store.prune_expired() == 0


def expire(current, secret):
    past = datetime.now(UTC) - timedelta(seconds=5)
    with writing(current) as connection:
        connection.execute(update(tokens).where(tokens.c.digest == digest_of(secret)).values(expires_at=past))


def test_a_token_is_refused_at_once_after_it_was_revoked(issue, token_store):
    first, second = issue(), issue()
    token_store.revoke(first.secret)
    assert token_store.revoke_by_id(second.accepted.id) == second.accepted.digest
    for issued in (first, second):
        with pytest.raises(TokenRefused):
            token_store.authenticate(issued.secret)
    with pytest.raises(TokenRefused):
        token_store.revoke(first.secret)


@pytest.mark.parametrize("token_id", ["", "a", "%" * 16, "_" * 16, "\0" * 16, "0" * 16])
def test_what_names_no_token_revokes_none(issue, token_store, token_id):
    issued = issue()
    with pytest.raises(UnknownName):
        token_store.revoke_by_id(token_id)
    token_store.authenticate(issued.secret)


def take_role(users, projects, ann, project):
    users.set_role(ann.id, project.id, None)


def disable_user(users, projects, ann, project):
    users.set_enabled(ann.name, False)


def disable_project(users, projects, ann, project):
    projects.set_enabled(project.name, False)


def change_password(users, projects, ann, project):
    users.set_password(ann.name, "another")


@pytest.mark.parametrize("change", [take_role, disable_user, disable_project, change_password])
def test_a_token_ends_with_what_it_rests_on(issue, token_store, users, projects, ann, project, change):
    secret = issue().secret
    change(users, projects, ann, project)
    with pytest.raises(TokenRefused):
        token_store.authenticate(secret)
    assert token_store.list_tokens(ann.id) == []


def test_a_token_allows_no_more_than_its_user_may_at_the_time(issue, token_store, users, ann, project):
    users.set_role(ann.id, project.id, "admin")
    secret = issue(roles=("admin",)).secret
    users.set_role(ann.id, project.id, "reader")
    assert token_store.authenticate(secret).caller.roles == {"reader"}


def test_a_token_gets_no_more_than_it_was_issued_for(issue, token_store, users, ann, project):
    secret = issue(roles=("reader",)).secret
    users.set_role(ann.id, project.id, "admin")
    assert token_store.authenticate(secret).caller.roles == {"reader"}


def test_two_roles_in_a_project_are_one_token(issue, token_store, current, ann, project):
    with writing(current) as connection:
        row = {"user_id": ann.id, "target_id": project.id, "role": "reader"}
        connection.execute(role_assignments.insert().values(row))
    issued = issue()
    assert token_store.list_tokens(ann.id) == [issued.accepted]


def test_a_token_and_a_new_password_at_once(current, users, token_store, ann, project):
    """D42: whichever comes first, no token of the old password is left."""
    _, stored = users.find_login(ann.name)
    with ThreadPoolExecutor(1) as threads:
        with writing(current) as connection:
            is_ann = stored_users.c.id == ann.id
            connection.execute(update(stored_users).where(is_ann).values(password_hash="another"))
            issue = partial(token_store.issue, ann.id, project.id, ["member"], PASSWORD, 60.0)
            asked = threads.submit(issue, password_hash=stored)
            connection.execute(delete(tokens).where(tokens.c.user_id == ann.id))
        with pytest.raises(TokenRefused):
            asked.result(20)
    assert token_store.list_tokens(ann.id) == []


def test_names_that_are_taken_at_the_same_moment_are_a_conflict(projects, users, credentials, ann, project):
    """D42: the second one was told that the database is busy."""

    def outcome(make, *arguments):
        try:
            make(*arguments)
        except Conflict:
            return "taken"
        return "made"

    name = f"twice-{next(NUMBERS)}"
    makers = [(projects.create, name), (users.create, name, None, {}), (credentials.create, ann.id, project.id, name)]
    with ThreadPoolExecutor(4) as threads:
        for make, *arguments in makers:
            found = [threads.submit(outcome, make, *arguments) for _ in range(4)]
            assert Counter(each.result(20) for each in found) == {"made": 1, "taken": 3}


def test_roles_that_are_set_at_the_same_moment_do_not_add_up(users, ann, project):
    """D42: both writers removed the role before, and each left its own."""
    with ThreadPoolExecutor(3) as threads:
        for _ in range(5):
            list(threads.map(partial(users.set_role, ann.id, project.id), ("admin", "reader", "member")))
            assert len(users.read_roles(ann.id)[project.id]) == 1


# --- application credentials -------------------------------------------------------------------------


def test_a_credential_is_accepted_with_its_secret_alone(credentials, ann, project):
    made, secret = credentials.create(ann.id, project.id, "script")
    assert made.roles == {"member"}
    assert credentials.verify(made.id, secret) == made
    assert credentials.verify(made.id, secret + "x") is None
    assert credentials.verify("nothing", secret) is None
    assert credentials.verify("a\0b", secret) is None


def test_a_credential_may_have_fewer_roles_but_not_more(credentials, ann, project, users):
    assert credentials.create(ann.id, project.id, "reads", ["reader"])[0].roles == {"reader"}
    with pytest.raises(Forbidden, match="has not admin"):
        credentials.create(ann.id, project.id, "rules", ["admin"])
    users.set_role(ann.id, project.id, None)
    with pytest.raises(Forbidden):
        credentials.create(ann.id, project.id, "nothing")


def test_a_second_credential_of_the_name_is_a_conflict(credentials, ann, project):
    credentials.create(ann.id, project.id, "script")
    with pytest.raises(Conflict):
        credentials.create(ann.id, project.id, "script")


def test_an_expired_credential_is_refused(credentials, ann, project, current):
    made, secret = credentials.create(ann.id, project.id, "old", None, datetime.now(UTC) + timedelta(hours=1))
    assert credentials.verify(made.id, secret) == made
    past = datetime.now(UTC) - timedelta(seconds=5)
    with writing(current) as connection:
        is_made = application_credentials.c.id == made.id
        connection.execute(update(application_credentials).where(is_made).values(expires_at=past))
    assert credentials.verify(made.id, secret) is None
    assert credentials.list_credentials(ann.id) == [replace(made, expires_at=past)]


def test_a_credential_that_has_expired_already_is_not_made(credentials, ann, project):
    with pytest.raises(BadInput, match="is over"):
        credentials.create(ann.id, project.id, "old", None, datetime.now(UTC) - timedelta(seconds=5))
    assert credentials.list_credentials(ann.id) == []


def test_a_deleted_credential_takes_its_tokens_along(credentials, ann, project, issue, token_store):
    made, _ = credentials.create(ann.id, project.id, "script")
    secret = issue(application_credential_id=made.id).secret
    assert token_store.authenticate(secret).application_credential_id == made.id
    credentials.delete(ann.id, "script")
    with pytest.raises(TokenRefused):
        token_store.authenticate(secret)
    with pytest.raises(UnknownName):
        credentials.find(ann.id, made.id)


def test_a_credential_is_of_its_user_alone(credentials, ann, project, users):
    made, _ = credentials.create(ann.id, project.id, "script")
    other = users.create(f"bob-{next(NUMBERS)}", "pw", {project.id: "admin"})
    with pytest.raises(UnknownName):
        credentials.delete(other.id, made.id)
