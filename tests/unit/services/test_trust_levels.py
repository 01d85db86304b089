# SPDX-License-Identifier: Apache-2.0
"""How long a trust level is valid, and what happens when it is stale: spec/filters.md 5.27."""

import time

import pytest
from tests.unit.services.test_attestation_client import serving

from roost.services.attestation import TrustLevels, parse_time

NOON = 1767268800.0
NOON_TEXT = "2026-01-01T12:00:00Z"
MINUTE_LATER_TEXT = "2026-01-01T12:01:00Z"


class Clock:
    """Unix time that stands still until a test moves it."""

    def __init__(self):
        self.time = NOON

    def __call__(self):
        return self.time


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path) as server:
        yield server


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def trust(server, clock):
    return TrustLevels(server.client(), timeout_seconds=60, now=clock)


def test_each_node_has_the_level_the_service_gives_it(server, trust):
    server.vouch(n1=("trusted", NOON_TEXT), n2=("untrusted", NOON_TEXT))
    assert trust.levels(["n1", "n2"]) == {"n1": "trusted", "n2": "untrusted"}


def test_all_nodes_are_asked_for_in_one_poll(server, trust):
    trust.levels(["n1", "n2", "n1"])
    assert [question for _, _, question in server.questions] == [{"count": 2, "hosts": ["n1", "n2"]}]


def test_level_is_looked_up_by_the_exact_name_of_the_node(server, trust):
    server.vouch(N1=("trusted", NOON_TEXT))
    assert trust.levels(["n1"]) == {"n1": "unknown"}


def test_node_the_service_does_not_name_is_unknown(server, trust):
    server.vouch(n1=("trusted", NOON_TEXT), stranger=("trusted", NOON_TEXT))
    assert trust.levels(["n1", "n2"]) == {"n1": "trusted", "n2": "unknown"}


def test_service_is_not_asked_about_no_nodes(server, trust):
    assert trust.levels([]) == {}
    assert server.questions == []


def test_level_of_exactly_the_timeout_is_believed(server, trust, clock):
    server.vouch(n1=("trusted", NOON_TEXT))
    trust.levels(["n1"])
    server.vouch(n1=("untrusted", MINUTE_LATER_TEXT))
    clock.time = NOON + 60
    assert trust.levels(["n1"]) == {"n1": "trusted"}
    assert len(server.questions) == 1


def test_older_level_is_asked_for_again(server, trust, clock):
    server.vouch(n1=("trusted", NOON_TEXT))
    trust.levels(["n1"])
    server.vouch(n1=("untrusted", MINUTE_LATER_TEXT))
    clock.time = NOON + 60.5
    assert trust.levels(["n1"]) == {"n1": "untrusted"}
    assert len(server.questions) == 2


def test_age_counts_from_the_validation_and_not_from_the_poll(server, trust, clock):
    server.vouch(n1=("trusted", NOON_TEXT))
    clock.time = NOON + 50
    trust.levels(["n1"])
    clock.time = NOON + 70
    trust.levels(["n1"])
    assert len(server.questions) == 2


def test_level_validated_long_ago_counts_but_is_asked_for_each_time(server, trust):
    server.vouch(n1=("trusted", "2025-12-31T12:00:00Z"))
    assert [trust.levels(["n1"]), trust.levels(["n1"])] == [{"n1": "trusted"}] * 2
    assert len(server.questions) == 2


def test_one_stale_node_makes_all_unknown_when_the_service_is_silent(server, trust, clock):
    server.vouch(n1=("trusted", MINUTE_LATER_TEXT), n2=("trusted", NOON_TEXT))
    assert trust.levels(["n1", "n2"]) == {"n1": "trusted", "n2": "trusted"}
    server.status = 500
    clock.time = NOON + 61  # n1 alone would be believed for another minute
    assert trust.levels(["n1", "n2"]) == {"n1": "unknown", "n2": "unknown"}


def test_new_node_resets_all_and_is_polled_with_the_others(server, trust):
    server.vouch(n1=("trusted", NOON_TEXT))
    trust.levels(["n1"])
    server.vouch(n2=("trusted", NOON_TEXT))
    assert trust.levels(["n1", "n2"]) == {"n1": "unknown", "n2": "trusted"}
    assert server.questions[1][2] == {"count": 2, "hosts": ["n1", "n2"]}


def test_fewer_nodes_than_before_need_no_poll(server, trust):
    server.vouch(n1=("trusted", NOON_TEXT), n2=("untrusted", NOON_TEXT))
    trust.levels(["n1", "n2"])
    assert trust.levels(["n2"]) == {"n2": "untrusted"}
    assert len(server.questions) == 1


def test_without_answer_all_are_unknown_and_the_next_call_asks_again(server, trust):
    server.status = 503
    assert trust.levels(["n1", "n2"]) == {"n1": "unknown", "n2": "unknown"}
    server.status = 200
    server.vouch(n1=("trusted", NOON_TEXT), n2=("trusted", NOON_TEXT))
    assert trust.levels(["n1", "n2"]) == {"n1": "trusted", "n2": "trusted"}
    assert len(server.questions) == 2


@pytest.mark.parametrize("vtime", ["", "yesterday", "2026-13-01T12:00:00Z", None])
def test_level_with_an_unreadable_time_is_unknown_and_believed_from_now(server, trust, clock, vtime):
    server.vouch(n1=("trusted", vtime))
    assert trust.levels(["n1"]) == {"n1": "unknown"}
    clock.time = NOON + 60
    assert trust.levels(["n1"]) == {"n1": "unknown"}
    assert len(server.questions) == 1
    clock.time = NOON + 61
    trust.levels(["n1"])
    assert len(server.questions) == 2


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T12:00:00Z",
        "2026-01-01T12:00:00",
        "2026-01-01 12:00:00.000",
        "2026-01-01T14:00:00+02:00",
        "20260101T070000-0500",
        time.strftime("%c", time.gmtime(NOON)),
    ],
)
def test_time_is_read_with_zone_without_zone_and_in_the_form_of_the_locale(text):
    assert parse_time(text) == NOON


@pytest.mark.parametrize("text", ["", " ", "12:00", "2026-01-01T12:00:00+99:00", "1767268800"])
def test_time_that_is_none_is_not_guessed(text):
    assert parse_time(text) is None
