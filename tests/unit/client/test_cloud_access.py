# SPDX-License-Identifier: Apache-2.0
"""Addresses and credentials of clouds, from clouds.yaml and secure.yaml, or from OS_* variables."""

import pytest

from roost.client.cloud_access import CREDENTIAL, NO_SIGN_IN, PASSWORD, TOKEN, CloudAccess, find_access, read_access
from roost.errors import BadInput

URL = "http://api.example.org:8774/identity/v3"
CLOUDS = f"""\
clouds:
  one:
    auth: {{auth_url: "{URL}", username: ann, project_name: demo}}
    region_name: north
    interface: internalURL
    image_endpoint_override: http://images.example.org
    cacert: /etc/ca.pem
  two:
    auth_type: v3applicationcredential
    auth: {{auth_url: "{URL}", application_credential_id: c1, application_credential_secret: s}}
    verify: false
  open:
    auth_type: none
    compute_endpoint_override: http://127.0.0.1:8774/v2.1
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "clouds.yaml").write_text(CLOUDS)
    return tmp_path


def find(folder, name=None, **environment):
    return find_access(name, {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), **environment}, folder)


def test_a_cloud_of_the_present_folder_is_read(folder):
    found = find(folder, "one")
    assert (found.name, found.auth_type, found.auth["username"]) == ("one", PASSWORD, "ann")
    assert (found.region, found.interface, found.verify) == ("north", "internal", "/etc/ca.pem")
    assert found.endpoints == {"image": "http://images.example.org"}


def test_secure_yaml_adds_what_others_must_not_read(folder):
    (folder / "secure.yaml").write_text("clouds: {one: {auth: {password: secret}}}")
    assert find(folder, "one").auth == {
        "auth_url": URL,
        "username": "ann",
        "project_name": "demo",
        "password": "secret",
    }


def test_the_named_file_wins_over_the_present_folder(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "mine.yaml"
    other.write_text(f"clouds: {{one: {{auth: {{auth_url: '{URL}', username: bob}}}}}}")
    assert find(folder, "one", OS_CLIENT_CONFIG_FILE=str(other)).auth["username"] == "bob"


def test_the_users_own_folder_comes_after_the_present_one(folder, tmp_path_factory):
    (folder / "config" / "openstack").mkdir(parents=True)
    (folder / "clouds.yaml").rename(folder / "config" / "openstack" / "clouds.yaml")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    environment = {"XDG_CONFIG_HOME": str(folder / "config")}
    assert find_access("one", environment, elsewhere).auth["username"] == "ann"


def test_os_cloud_names_one_unless_an_argument_does(folder):
    assert find(folder, OS_CLOUD="two").auth_type == CREDENTIAL
    assert find(folder, "one", OS_CLOUD="two").name == "one"


def test_nothing_named_is_no_cloud(folder):
    assert find(folder) is None


def test_variables_describe_a_cloud(folder):
    found = find(folder, OS_AUTH_URL=URL, OS_USERNAME="ann", OS_PASSWORD="x", OS_PROJECT_NAME="demo", OS_INSECURE="1")
    assert (found.auth_type, found.auth["project_name"], found.verify) == (PASSWORD, "demo", False)


@pytest.mark.parametrize(
    ("auth", "kind"),
    [
        ({"token": "t"}, TOKEN),
        ({"password": "p"}, PASSWORD),
        ({"application_credential_secret": "s"}, CREDENTIAL),
    ],
)
def test_what_is_given_tells_how_to_sign_in(auth, kind):
    assert CloudAccess.of("here", {"auth": {"auth_url": URL, **auth}}).auth_type == kind


def test_a_cloud_without_sign_in_needs_only_the_address_of_its_api(folder):
    found = find(folder, "open")
    assert (found.auth_type, found.endpoints) == (NO_SIGN_IN, {"compute": "http://127.0.0.1:8774/v2.1"})


def test_another_project_takes_the_place_of_the_scope():
    access = CloudAccess.of("here", {"auth": {"auth_url": URL, "project_id": "p", "system_scope": "all"}})
    assert access.in_project("demo").auth == {"auth_url": URL, "project_name": "demo"}


def test_a_secret_is_not_in_the_repr():
    assert "secret" not in repr(CloudAccess.of("here", {"auth": {"auth_url": URL, "password": "secret"}}))


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("x", {"auth": {}}, "auth_url is missing"),
        ("x", {"auth_type": "none"}, "endpoint is missing"),
        ("x", {"auth_type": "v3kerberos", "auth": {"auth_url": URL}}, "'v3kerberos' is not known"),
    ],
)
def test_what_does_not_suffice_is_said(name, settings, words):
    with pytest.raises(BadInput, match=words):
        CloudAccess.of(name, settings)


def test_an_unknown_cloud_is_refused_with_the_nearest(folder):
    with pytest.raises(BadInput, match="did you mean one"):
        find(folder, "onne")


def test_a_missing_file_is_named(folder):
    with pytest.raises(BadInput, match=r"nowhere.yaml"):
        find(folder, "one", OS_CLIENT_CONFIG_FILE=str(folder / "nowhere.yaml"))
    (folder / "clouds.yaml").unlink()
    with pytest.raises(BadInput, match="OS_CLIENT_CONFIG_FILE"):
        find(folder, "one", XDG_CONFIG_HOME=str(folder))


@pytest.mark.parametrize("text", ["clouds: [", "7", "clouds: 7", "clouds: {one: 7}", ""])
def test_a_damaged_file_is_one_error_without_its_content(tmp_path, text):
    path = tmp_path / "clouds.yaml"
    path.write_text(f"{text}\n# password: secret\n")
    with pytest.raises(BadInput) as raised:
        read_access(path, "one")
    assert "secret" not in str(raised.value)
