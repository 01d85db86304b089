# SPDX-License-Identifier: Apache-2.0
"""[placement] of nova.conf, as keystoneauth reads it; what is wrong with it is one line."""

import pytest

from roost.errors import OptionError
from roost.nova.placement.client import make_adapter

TOKEN = "auth_type = admin_token\nendpoint = http://placement.test/\ntoken = secret\n"


@pytest.fixture
def adapter_for(tmp_path):
    def make(text):
        file = tmp_path / "nova.conf"
        file.write_text(text)
        return make_adapter([file])

    return make


def problem(adapter_for, text):
    with pytest.raises(OptionError) as caught:
        adapter_for(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults_are_novas(adapter_for):
    adapter = adapter_for(f"[placement]\n{TOKEN}")
    assert (adapter.service_type, adapter.interface) == ("placement", ["internal", "public"])
    assert adapter.get_endpoint() == "http://placement.test/"


def test_options_of_session_and_adapter_are_read(adapter_for, tmp_path):
    pem = tmp_path / "a.pem"
    pem.write_text("")
    more = (
        f"cafile = {pem}\ncertfile = {pem}\nkeyfile = {pem}\ntimeout = 7\nconnect_retries = 3\nregion_name = east\n"
    )
    adapter = adapter_for(
        f"[placement]\n{TOKEN}{more}valid_interfaces = public\nendpoint_override = http://other.test\n"
    )
    assert (adapter.connect_retries, adapter.region_name, adapter.interface) == (3, "east", ["public"])
    assert (adapter.session.verify, adapter.session.cert) == (str(pem), (str(pem), str(pem)))
    assert (adapter.session.timeout, adapter.endpoint_override) == (7, "http://other.test")


def test_a_certificate_is_not_verified_where_that_is_insecure(adapter_for):
    assert adapter_for(f"[placement]\n{TOKEN}insecure = true\n").session.verify is False


def test_options_of_another_plugin_are_read(adapter_for):
    text = "auth_url = http://keystone.test/v3\nusername = nova\npassword = pw\nuser_domain_name = Default\n"
    auth = adapter_for(f"[placement]\nauth_type = v3password\n{text}").session.auth
    assert auth.auth_url == "http://keystone.test/v3"


def test_credentials_may_be_in_another_section(adapter_for):
    assert adapter_for(f"[placement]\nauth_section = keystone\n[keystone]\n{TOKEN}").get_endpoint()


def test_a_value_may_refer_to_default(adapter_for):
    adapter = adapter_for(f"[DEFAULT]\nmy_ip = 192.0.2.1\n[placement]\n{TOKEN}endpoint_override = http://$my_ip\n")
    assert adapter.endpoint_override == "http://192.0.2.1"


def test_without_auth_type_nothing_can_be_asked(adapter_for):
    assert "[placement] auth_type is not set" in problem(adapter_for, "[placement]\ntoken = secret\n")


def test_an_unknown_auth_type_is_named_with_the_nearest(adapter_for):
    text = problem(adapter_for, "[placement]\nauth_type = admin_tokn\n")
    assert "auth_type = admin_tokn" in text
    assert "did you mean admin_token?" in text


@pytest.mark.parametrize(
    ("written", "missing"),
    [("auth_type = admin_token\ntoken = secret", "endpoint"), ("auth_type = password\nusername = nova", "auth_url")],
)
def test_a_missing_option_is_named(adapter_for, written, missing):
    text = problem(adapter_for, f"[placement]\n{written}\n")
    assert f"also needs: {missing}" in text
    assert "secret" not in text


@pytest.mark.parametrize("written", ["connect_retries = many", "cafile = /nowhere.pem", "timeout = soon"])
def test_a_wrong_value_is_named(adapter_for, written):
    assert written.split()[0] in problem(adapter_for, f"[placement]\n{TOKEN}{written}\n")
