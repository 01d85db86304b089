# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around a scheduler: what callers are told, what is counted, what readiness says, what goes on."""

import logging
import re
import threading

import pytest
from tests.flow.cloud import CONTEXT, UUID, request

from roost.errors import (
    DatabaseReadOnly,
    DatabaseUnreachable,
    OptionError,
    PluginNotFound,
    RemoteFailure,
)
from roost.messages.in_process import InProcessTransport
from roost.messages.objects.request import request_to_object
from roost.scheduler import process
from roost.scheduler.all_options import read_options
from roost.scheduler.cloud import RequestNotifications
from roost.services.logs import set_up_logging
from roost.services.options import LogOptions


@pytest.fixture
def cloud(make_cloud):
    made = make_cloud({"a": {}})
    made.service()
    return made


def fail_with(error):
    def fail(*_, **__):
        raise error

    return fail


def left_alone(cloud):
    """The service without its periodic tasks: a test does what they would do."""
    (service,) = cloud.services
    for task in service._tasks:
        task.stop()
        assert task.join(20)
    return service


def look(cloud):
    """At the fleet as it is a second later."""
    cloud.clock.seconds += 1
    cloud.services[0].manager.claims.refresh()


def ask(cloud, uuid=UUID % 1):
    return cloud.client().select_destinations(CONTEXT, request(), [uuid], return_objects=True)


# --- requests ---


@pytest.mark.parametrize("uuid", ["x" * 100, "a\x00b", "\ud800", "", UUID % 1 + "\n", "{%s" % (UUID % 1)])
def test_what_is_no_uuid_never_gets_to_the_database_where_it_would_fail_others(cloud, uuid):
    spec = request_to_object(request())
    with pytest.raises(RemoteFailure, match="Invalid: instance_uuid"):
        cloud.send("select_destinations", spec_obj=spec, instance_uuids=[uuid])
    if uuid:
        spec["nova_object.data"]["instance_uuid"] = uuid
        with pytest.raises(RemoteFailure, match="Invalid: instance_uuid"):
            cloud.send("select_destinations", "4.3", spec_obj=spec)


@pytest.mark.parametrize("owner", ["x" * 256, "a\x00b", "\ud800"])
@pytest.mark.parametrize("field", ["project_id", "user_id"])
def test_nor_does_an_owner_that_cannot_be_stored(cloud, field, owner):
    spec = request_to_object(request())
    spec["nova_object.data"][field] = owner
    with pytest.raises(RemoteFailure, match=f"Invalid: {field}"):
        cloud.send("select_destinations", spec_obj=spec, instance_uuids=[UUID % 1])


def test_a_mistake_is_not_repeated_at_any_length(cloud):
    with pytest.raises(RemoteFailure) as caught:
        cloud.send("select_destinations", spec_obj=request_to_object(request()), instance_uuids=[["y" * 10**6]])
    assert len(str(caught.value)) < 500


def test_callers_are_not_told_where_the_database_is_and_the_error_is_counted_as_one(cloud):
    error = DatabaseUnreachable("database postgresql://roost@10.1.2.3/roost cannot be reached")
    cloud.services[0].manager.claims.granter.claim = fail_with(error)
    with pytest.raises(RemoteFailure, match="NovaException: The scheduler cannot use its database now") as caught:
        ask(cloud)
    assert "10.1.2.3" not in str(caught.value)
    lines = cloud.metrics.render().decode().splitlines()
    assert 'roost_rpc_requests_total{method="select_destinations",result="error"} 1.0' in lines
    assert 'roost_rpc_requests_total{method="select_destinations",result="expected_error"} 0.0' in lines


def test_a_request_waits_for_a_database_that_starts_again(cloud, monkeypatch):
    replica = left_alone(cloud).replica
    usual, errors = replica._refresh, [DatabaseUnreachable("starting"), DatabaseUnreachable("starting")]

    def refresh(also=()):
        if errors:
            raise errors.pop()
        return usual(also)

    monkeypatch.setattr(replica, "_refresh", refresh)
    cloud.clock.seconds += 10
    ((chosen,),) = ask(cloud)
    assert (chosen.host, errors) == ("a", [])


# --- readiness and life ---


@pytest.mark.parametrize("error", [DatabaseUnreachable("gone"), ZeroDivisionError("of ours")])
def test_a_look_that_fails_for_any_reason_is_a_reason_not_to_be_ready(cloud, error, monkeypatch):
    service = left_alone(cloud)
    assert service.unready() == []
    monkeypatch.setattr(service.replica, "_refresh", fail_with(error))
    with pytest.raises(type(error)):
        look(cloud)
    since = f"{cloud.clock.now():%Y-%m-%d %H:%M:%S} UTC"
    assert service.unready() == [f"the fleet cannot be read: {error}, since {since}"]
    monkeypatch.undo()
    look(cloud)
    assert service.unready() == []


def test_a_database_that_takes_nothing_is_a_reason_not_to_be_ready(cloud, monkeypatch):
    service = left_alone(cloud)
    monkeypatch.setattr(process, "save_service_heartbeat", fail_with(DatabaseReadOnly("it is read-only")))
    with pytest.raises(DatabaseReadOnly):
        service._cloud._send_heartbeat()
    assert service.unready() == ["nothing can be claimed: it is read-only"]
    monkeypatch.undo()
    service._cloud._send_heartbeat()
    assert service.unready() == []


def test_one_that_hangs_says_so(cloud, monkeypatch):
    service = left_alone(cloud)
    monkeypatch.setattr(service, "is_alive", lambda: False)
    service._monitor()
    cloud.clock.seconds += 59
    service._monitor()
    assert (service.hangs, service.unready()) == (False, [])  # a slow plugin is none that hangs
    cloud.clock.seconds += 1
    service._monitor()
    assert (service.hangs, service.unready()) == (True, ["it hangs: a request keeps the table of hosts to itself"])
    monkeypatch.undo()
    service._monitor()
    assert (service.hangs, service.unready()) == (False, [])


def test_who_waits_for_the_database_is_alive_for_a_while_and_not_ready(cloud, monkeypatch):
    service = left_alone(cloud)
    monkeypatch.setattr(process, "LONGEST_JOIN_SECONDS", 0.01)
    began, may_end = threading.Event(), threading.Event()

    def hang(also=()):
        began.set()
        may_end.wait(20)
        raise DatabaseUnreachable("no answer")

    monkeypatch.setattr(service.replica, "_refresh", hang)
    looking = threading.Thread(target=pytest.raises, args=(DatabaseUnreachable, look, cloud))
    looking.start()
    assert began.wait(20)
    cloud.clock.seconds += 1
    assert service.is_alive()
    cloud.clock.seconds += 20
    assert service.is_alive()
    assert "the database does not answer" in "".join(service.unready())
    cloud.clock.seconds += 60
    assert not service.is_alive()
    may_end.set()
    looking.join(20)
    assert service.is_alive()


def test_who_keeps_the_picture_for_no_reason_is_not_alive(cloud, monkeypatch):
    (service,) = cloud.services
    monkeypatch.setattr(process, "LONGEST_JOIN_SECONDS", 0.01)
    held, may_end = threading.Event(), threading.Event()

    def hold():
        with service.replica.lock:
            held.set()
            may_end.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(20)
    assert not service.is_alive()
    may_end.set()
    holder.join(20)


def test_a_hurried_stop_does_not_wait_for_requests(make_cloud):
    cloud = make_cloud({"a": {}})
    cloud.transport = InProcessTransport()
    service = cloud.service()
    began, may_end = threading.Event(), threading.Event()
    usual = service.manager.claims.granter.claim

    def claim(claims):
        began.set()
        may_end.wait(20)
        usual(claims)

    service.manager.claims.granter.claim = claim
    asking = threading.Thread(target=ask, args=(cloud,))
    asking.start()
    assert began.wait(20)
    stopping = threading.Thread(target=service.stop, args=(True,))
    stopping.start()
    stopping.join(10)
    assert not stopping.is_alive()
    may_end.set()
    asking.join(20)


# --- reload ---


@pytest.fixture
def kept_logging():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    "wrong",
    [
        {"DEFAULT": {"log_file": "/no/such/folder/roost.log"}, "scheduler": {"max_attempts": 7}},
        {"DEFAULT": {"debug": True}, "filter_scheduler": {"enabled_filters": ["NoSuchFilter"]}},
    ],
)
def test_a_reload_that_is_refused_leaves_everything_as_it_was(cloud, wrong, kept_logging):
    (service,) = cloud.services
    set_up_logging(cloud.settings.fill(LogOptions), "test")
    before = service.driver.pipeline, service.driver.settings, service.settings
    service._read_again = lambda: read_options(explicit=wrong)
    with pytest.raises((OptionError, PluginNotFound), match=r"no/such/folder|NoSuchFilter"):
        service.reload()
    assert (service.driver.pipeline, service.driver.settings, service.settings) == before
    assert service.manager._most_alternates == 2
    assert logging.getLogger().level == logging.INFO


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"DEFAULT": {"transport_url": "pigeon://coop"}}, "transport_url"),
        ({"database": {"connection": "oracle://here/db"}}, "connection"),
    ],
)
def test_addresses_that_the_next_start_would_fail_with_are_told_now(cloud, wrong, said, kept_logging):
    (service,) = cloud.services
    service._read_again = lambda: read_options(explicit=wrong)
    with pytest.raises(OptionError, match=said):
        service.reload()


def test_what_needs_a_restart_is_compared_with_what_runs(cloud, kept_logging, capsys):
    (service,) = cloud.services
    for workers in (3, 4, 1, 1):
        service._read_again = lambda workers=workers: read_options(explicit={"scheduler": {"workers": workers}})
        service.reload()
    told = re.findall(r'"\[scheduler\] workers" result="(.*?)"', capsys.readouterr().err)
    assert told == ["changes with a restart", "changes with a restart", "as it runs"]


# --- notifications ---


class Notifier:
    is_enabled, dropped = True, 0


def test_notifications_of_both_forms_wait_in_one_queue_and_are_counted_once():
    both = RequestNotifications(Notifier(), Notifier())
    assert both.dropped == 0
    both.unversioned.dropped = both._versioned.dropped = 3
    assert both.dropped == 3
    assert RequestNotifications().dropped == 0
