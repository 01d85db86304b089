# SPDX-License-Identifier: Apache-2.0
"""Users and clouds.yaml of a new cloud, and of one that is started again."""

import stat

import pytest
import yaml
from tests.store.sqlite_template import open_upgraded

from roost.api.first_users import make_first_users
from roost.clock import SystemClock
from roost.records.users import SYSTEM, UserStore, verify_password


class Cloud:
    """A database and a clouds.yaml."""

    def __init__(self, folder):
        self.engine, self.file = open_upgraded(folder), folder / "clouds.yaml"
        self.users = UserStore(self.engine, SystemClock())

    def make(self, **options):
        return make_first_users(self.engine, SystemClock(), self.file, "http://127.0.0.1:8774", **options)

    def sign_ins(self):
        """The clouds of the file with which somebody can sign in."""
        clouds = yaml.safe_load(self.file.read_text())["clouds"].items()
        return {name for name, each in clouds if self.accepts(**each["auth"])}

    def accepts(self, username, password, **rest):
        return verify_password(password, self.users.find_login(username)[1])


@pytest.fixture
def cloud(tmp_path):
    made = Cloud(tmp_path)
    assert made.make() == []
    yield made
    made.engine.dispose()


BOTH = {"roost", "roost-member"}


def test_a_new_cloud_has_an_administrator_of_the_system_and_a_member(cloud):
    assert stat.S_IMODE(cloud.file.stat().st_mode) == 0o600
    assert cloud.sign_ins() == BOTH
    found = {(each.target_name, each.role) for each in cloud.users.list_assignments()}
    assert found == {("admin", "admin"), (SYSTEM, "admin"), ("demo", "member")}


def test_passwords_stay_at_the_next_start(cloud):
    first = cloud.file.read_text()
    assert cloud.make() == []
    assert cloud.file.read_text() == first


def test_a_user_that_was_deleted_comes_back_with_the_password_of_the_file(cloud):
    cloud.users.delete("member")
    first = cloud.file.read_text()
    cloud.make()
    assert (cloud.file.read_text(), cloud.sign_ins()) == (first, BOTH)


@pytest.mark.parametrize("content", [None, "", "[]", "clouds: {roost: 1}", "\t"])
def test_a_password_that_is_lost_is_replaced(cloud, content):
    cloud.file.write_text(content) if content is not None else cloud.file.unlink()
    assert cloud.make() == []
    assert cloud.sign_ins() == BOTH


def test_where_the_database_may_be_that_of_others_nobodys_password_is_replaced(cloud):
    before = cloud.users.find_login("admin")[1]
    cloud.users.delete("member")
    cloud.file.unlink()
    assert cloud.make(may_reset=False) == ["admin"]
    assert cloud.users.find_login("admin")[1] == before
    assert cloud.sign_ins() == {"roost-member"}
