"""Errors of a conductor reach its clients as the same class, in one line."""

import pytest

from roost.errors import (
    BadInput,
    BrokerUnreachable,
    DatabaseFull,
    DatabaseUnreachable,
    FieldError,
    HypervisorError,
    IllegalStep,
    RemoteFailure,
    RemoteNoValidHost,
    RoostError,
    RpcTimeout,
    ServerChanged,
    ServiceUnavailable,
    UnknownName,
)
from roost.messages.dispatcher import WireFailure, as_client_errors, as_own_errors, from_wire, nova_failure, to_wire


def after_the_wire(error, is_admin=True):
    """What the client raises where the conductor raised this."""
    with pytest.raises((WireFailure, KeyError)) as sent, as_client_errors(is_admin):
        raise error
    with pytest.raises(RoostError) as got, as_own_errors():
        raise from_wire(to_wire(sent.value))
    return got.value


@pytest.mark.parametrize("kind", [BadInput, UnknownName, IllegalStep, HypervisorError])
def test_an_expected_error_keeps_its_class_its_message_and_its_hint(kind):
    got = after_the_wire(kind("there is no flavor m9", "did you mean m1?"))
    assert type(got) is kind
    assert str(got) == "there is no flavor m9 (did you mean m1?)"


def test_other_wrong_input_is_bad_input():
    got = after_the_wire(FieldError("flavor.vcpus", "'many' is no number", "write 4"))
    assert type(got) is BadInput
    assert str(got) == "flavor.vcpus: 'many' is no number (write 4)"


def test_no_valid_host_keeps_the_summary_of_the_decision():
    error = RemoteNoValidHost("NoValidHost", "No valid host was found. x", "x", summary="0 of 9 hosts fit: 9 ram")
    got = after_the_wire(error)
    assert isinstance(got, RemoteNoValidHost)
    assert (got.message, got.reason, got.summary) == (error.message, "x", "0 of 9 hosts fit: 9 ram")


def test_a_lost_race_is_an_illegal_step_that_may_be_tried_again():
    got = after_the_wire(ServerChanged("server a has changed since generation 3"))
    assert type(got) is IllegalStep
    assert "try again" in str(got)


def test_the_address_of_the_database_is_not_sent(caplog):
    got = after_the_wire(DatabaseUnreachable("postgresql://nova@db: no connection"))
    assert str(got) == "the conductor cannot use its database now (its log says more)"
    assert "nova@db" in caplog.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DatabaseUnreachable("postgresql://nova@db: no connection"), "cannot use its database now"),
        (DatabaseFull("postgresql://nova@db: no space"), "the conductor's database is full"),
        (BrokerUnreachable("no connection"), "no connection"),
        (RpcTimeout("select_destinations: no answer"), "no answer"),
        (
            from_wire(to_wire(nova_failure("NovaException", "The scheduler cannot.", code=503))),
            "The scheduler cannot",
        ),
    ],
)
def test_what_is_away_or_full_may_be_asked_for_again(error, text):
    """D34: clients of the API were told that it is an error of the conductor."""
    got = after_the_wire(error)
    assert type(got) is ServiceUnavailable
    assert text in str(got)


def test_other_failures_of_a_scheduler_are_no_reason_to_come_again():
    """D34: such as a plugin that fails with each request."""
    got = after_the_wire(from_wire(to_wire(nova_failure("NovaException", "filter X failed"))))
    assert type(got) is RoostError


def test_a_scheduler_that_does_not_answer_the_conductor_is_no_timeout_of_the_client():
    got = after_the_wire(RpcTimeout("select_destinations: no answer within 60 seconds"))
    assert not isinstance(got, RpcTimeout)
    assert "select_destinations" in str(got)


def test_a_request_that_the_scheduler_refuses_is_wrong_input():
    got = after_the_wire(RemoteFailure("Invalid", "flavor.vcpus: 0 is too small"))
    assert type(got) is BadInput
    assert str(got) == "flavor.vcpus: 0 is too small"


def test_a_bug_of_the_conductor_stays_a_remote_failure():
    got = after_the_wire(KeyError("host"))
    assert isinstance(got, RemoteFailure)
    assert got.name == "KeyError"
