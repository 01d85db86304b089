# SPDX-License-Identifier: Apache-2.0
"""Who may do what, by the defaults and by files of rules."""

import os

import pytest
from tests.clocks import SleeplessClock

from roost.api.policy import Policy
from roost.errors import Forbidden, OptionError
from roost.records.tokens import Caller
from roost.records.users import with_implied

OWN = {"project_id": "blue", "user_id": "ann"}
OTHERS = {"project_id": "red", "user_id": "bob"}
MIGRATE = "os_compute_api:os-migrate-server:migrate"


def caller(role, is_system=False):
    project = "" if is_system else "blue"
    return Caller("ann", "ann", project, project, with_implied([role]), is_system)


@pytest.fixture(scope="module")
def policy():
    return Policy()


@pytest.fixture
def clock():
    return SleeplessClock()


@pytest.fixture
def policy_of(tmp_path, clock):
    """Makes a policy from the text of a file of rules."""

    def make(text, name="policy.yaml", options=""):
        (tmp_path / name).write_text(text)
        conf = tmp_path / "nova.conf"
        conf.write_text(f"[oslo_policy]\n{options}")
        return Policy([conf], clock)

    return make


@pytest.mark.parametrize(
    ("role", "rule", "target", "is_allowed"),
    [
        ("reader", "os_compute_api:servers:index", OWN, True),
        ("reader", "os_compute_api:servers:show", OTHERS, False),
        ("reader", "os_compute_api:servers:create", OWN, False),
        ("member", "os_compute_api:servers:create", OWN, True),
        ("member", "os_compute_api:servers:create:forced_host", OWN, False),
        ("member", "os_compute_api:os-hypervisors:list", OWN, False),
        ("member", MIGRATE, OWN, False),
        ("manager", MIGRATE, OWN, True),
        ("admin", MIGRATE, OTHERS, True),
        ("admin", "os_compute_api:os-hypervisors:list", OWN, True),
        ("nobody", "os_compute_api:servers:index", OWN, False),
        ("nobody", "os_compute_api:limits", OWN, True),
        ("reader", "roost:decisions:list", OWN, True),
        ("reader", "roost:decisions:list", OTHERS, False),
        ("member", "roost:decisions:all", OWN, False),
        ("member", "roost:capacity", OWN, False),
        ("admin", "roost:capacity", OWN, True),
        ("reader", "get_image", OTHERS | {"visibility": "public"}, True),
        ("reader", "get_image", OTHERS | {"visibility": "private"}, False),
        ("reader", "identity:get_user", OWN, True),
        ("member", "identity:get_user", OTHERS, False),
        ("admin", "identity:create_application_credential", OTHERS, False),
    ],
)
def test_a_role_in_a_project(policy, role, rule, target, is_allowed):
    assert policy.allows(caller(role), rule, target) is is_allowed


@pytest.mark.parametrize(
    ("role", "rule", "is_allowed"),
    [
        ("reader", "roost:decisions:all", True),
        ("reader", "roost:hosts", True),
        ("reader", "roost:plan", True),
        ("admin", "roost:snapshot", True),
        ("nobody", "roost:hosts", False),
        ("admin", "os_compute_api:servers:index", False),  # in nova's scopes, for tokens of projects
    ],
)
def test_a_role_in_the_system(policy, role, rule, is_allowed):
    assert policy.allows(caller(role, is_system=True), rule, {"project_id": ""}) is is_allowed


def test_a_refusal_is_in_novas_words(policy):
    policy.authorize(caller("member"), "os_compute_api:servers:create", OWN)
    with pytest.raises(Forbidden, match=r"^Policy doesn't allow os_compute_api:os-evacuate to be performed\.$"):
        policy.authorize(caller("member"), "os_compute_api:os-evacuate", OWN)


def test_an_administrator_is_who_the_rule_says(policy, policy_of):
    assert policy.is_admin(caller("admin"))
    assert not policy.is_admin(caller("member"))
    assert policy_of("context_is_admin: role:operator").is_admin(caller("operator"))


def test_a_file_of_nova_changes_single_rules(policy_of):
    policy = policy_of(f'"{MIGRATE}": "rule:admin_or_owner"\n"os_compute_api:os-keypairs:index": "rule:only_novas"\n')
    assert policy.allows(caller("member"), MIGRATE, OWN)
    assert not policy.allows(caller("member"), MIGRATE, OTHERS)
    assert not policy.allows(caller("reader"), "os_compute_api:servers:create", OWN)


def test_files_of_a_folder_come_after_the_file(policy_of, tmp_path):
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d" / "one.yaml").write_text(f"{MIGRATE}: '@'")
    assert policy_of(f"{MIGRATE}: '!'").allows(caller("reader"), MIGRATE, OTHERS)


def test_a_changed_file_is_followed_and_a_wrong_one_changes_nothing(policy_of, tmp_path, clock, caplog):
    policy = policy_of(f"{MIGRATE}: '!'")
    assert not policy.allows(caller("member"), MIGRATE, OWN)
    change(tmp_path / "policy.yaml", f"{MIGRATE}: role:member", clock)
    assert policy.allows(caller("member"), MIGRATE, OWN)
    change(tmp_path / "policy.yaml", f"{MIGRATE}: [", clock)
    for _ in range(3):
        assert policy.allows(caller("member"), MIGRATE, OWN)
        clock.sleep(1)
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    (tmp_path / "policy.yaml").unlink()
    clock.sleep(1)
    assert not policy.allows(caller("member"), MIGRATE, OWN)


def change(path, text, clock):
    path.write_text(text)
    os.utime(path, (clock.seconds, clock.seconds))
    clock.sleep(1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "expected the node content"),
        ("- a", "no mapping"),
        ("a: 3", "a: '3' is no check"),
        ("a: role:admin and", "is no check"),
        ("a: rule:b\nb: rule:a", "in a circle"),
        ("\ufffe\x00", "policy.yaml"),
    ],
)
def test_a_wrong_file_is_one_line(policy_of, text, problem):
    with pytest.raises(OptionError, match=problem) as refused:
        policy_of(text)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_named_must_be_there(policy_of):
    with pytest.raises(OptionError, match=r"policy_file = nowhere.yaml: there is no such file"):
        policy_of("", options="policy_file = nowhere.yaml\n")
    assert policy_of(f"{MIGRATE}: '@'", "rules.yaml", "policy_file = rules.yaml").allows(caller("x"), MIGRATE, OWN)
