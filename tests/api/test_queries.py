# SPDX-License-Identifier: Apache-2.0
"""Keys of queries that are not known: refused by Roost's own API, and in the Compute API where nova does (D29)."""

import pytest
from tests.api.servers import refusal

from roost.api.routes import FLAVORS, FLEET, OWN, SERVERS

STRICT = [each for each in (*SERVERS, *FLAVORS, *FLEET) if each.strict_since]
UNKNOWN = "2f2b1f4e-0000-4000-8000-000000000000"


def of(route):
    """The address of a route, of something that need not exist."""
    return "/".join(UNKNOWN if each.startswith("{") else each for each in route.path.split("/"))


@pytest.mark.parametrize("route", STRICT, ids=lambda route: route.path)
def test_an_unknown_key_is_refused_since_nova_refuses_it(admin, route):
    """D29: flavors, groups, services, limits and hypervisors took any key, and listed everything."""
    since = route.strict_since
    status, message = refusal(admin.get(f"{of(route)}?colour=red", version=f"compute {since}"))
    assert (status, "'colour' was unexpected" in message) == (400, True)
    before = admin.get(f"{of(route)}?colour=red", version=f"compute 2.{since.minor - 1}")
    assert before.status_code in (200, 404)


@pytest.mark.parametrize("route", OWN, ids=lambda route: f"{route.method} {route.path}")
def test_an_unknown_key_is_refused_by_roosts_own_api(admin, route):
    """D29: it was ignored."""
    status, message = refusal(admin.request(route.method, f"{of(route)}?colour=red"))
    assert (status, "'colour' was unexpected" in message) == (400, True)


@pytest.mark.parametrize(
    ("path", "key"),
    [("/servers", "limit"), ("/flavors", "minRam"), ("/os-services", "host"), ("/roost/v1/servers", "status")],
)
def test_a_key_with_one_value_is_given_once(admin, path, key):
    """D29: all values but the last one were dropped."""
    assert refusal(admin.get(f"{path}?{key}=1&{key}=2"))[1].endswith(f"{key}: it is given 2 times")


def test_keys_of_lists_may_be_given_several_times(admin):
    assert admin.get("/servers?status=ACTIVE&status=ERROR&sort_key=name&sort_key=uuid").status_code == 200


def test_a_hidden_migration_does_not_exist(admin):
    assert admin.get("/os-migrations?hidden=1").json()["migrations"] == []
    assert admin.get("/os-migrations?hidden=0").status_code == 200
