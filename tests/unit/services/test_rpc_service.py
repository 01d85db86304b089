# SPDX-License-Identifier: Apache-2.0
"""What conductor and compute have in common: readiness, reload, the order of a stop, and measured methods."""

from contextlib import nullcontext

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import create_engine
from structlog.testing import capture_logs
from tests.store.sqlite_template import open_upgraded
from tests.unit.compute.agents import TurnedClock

from roost.errors import SchemaError
from roost.messages.context import RequestContext
from roost.messages.dispatcher import nova_failure
from roost.messages.in_process import InProcessTransport
from roost.scheduler.all_options import read_options
from roost.services.metrics import Metrics
from roost.services.rpc_service import PeriodicTask, RpcService, measured


class Echo(RpcService):
    """A service that repeats what it is told, and notes what happens to it."""

    binary = "echo"

    def __init__(self, engine, transport, metrics, read_again=None, hosts=("one",)):
        self.notes, self.hosts = [], hosts
        known = {"clock": TurnedClock(), "metrics": metrics, "read_again": read_again}
        super().__init__(read_options([]), engine, transport, **known, owned=[lambda: self.notes.append("owned")])

    def prepare(self):
        self.notes.append("prepare")

    def make_servers(self):
        self.notes.append("serve")
        return {host: self.serve("echo", host, {"say": self.say}, "1.0") for host in self.hosts}

    def say(self, context, words):
        self.notes.append(words)
        return words

    def tasks(self):
        return [PeriodicTask("tick", lambda: None, lambda: 1.0)]

    def send_heartbeat(self):
        pass

    def close(self):
        self.notes.append("close")


@pytest.fixture
def transport():
    return InProcessTransport(TurnedClock(), in_callers_thread=True)


@pytest.fixture
def make_echo(tmp_path, transport):
    engine, made = open_upgraded(tmp_path), []

    def make(**more):
        made.append(Echo(engine, transport, Metrics({"say"}), **more))
        return made[-1]

    yield make
    for service in made:
        service.stop(is_hurried=False)
    engine.dispose()


def call(transport, words):
    return transport.call("echo", "say", "1.0", {"words": words}, RequestContext.new("req-1", "ann", "blue"), 5)


def test_it_prepares_before_it_takes_messages_and_closes_what_it_owns_last(make_echo, transport):
    echo = make_echo()
    assert echo.unready() == ["it has not started yet"]
    echo.start()
    assert (echo.unready(), call(transport, "hello")) == ([], "hello")
    echo.stop(is_hurried=False)
    assert (echo.unready(), echo.notes) == (*(["it is stopping"], ["prepare", "serve", "hello", "close", "owned"]),)


def test_a_hurried_stop_closes_nothing_that_a_running_message_may_need(make_echo):
    echo = make_echo()
    echo.start()
    echo.stop(is_hurried=True)
    assert echo.notes == ["prepare", "serve"]


def test_a_database_without_tables_is_refused_before_anything_else(transport):
    echo = Echo(create_engine("sqlite://"), transport, Metrics())
    with pytest.raises(SchemaError):
        echo.start()
    assert echo.notes == []


def test_it_says_how_many_of_its_hosts_get_no_messages(make_echo):
    echo = make_echo(hosts=("one", "two"))
    echo.start()
    echo._servers["two"].stop()
    assert echo.unready() == ["messages do not reach 1 of its 2 hosts: the broker is away"]
    echo._servers["one"].stop()
    assert echo.unready() == ["messages do not reach it: the broker is away"]


def test_a_reload_applies_log_and_stop_options_and_names_what_needs_a_restart(make_echo, monkeypatch):
    applied = []
    monkeypatch.setattr("roost.services.rpc_service.set_up_logging", lambda options, _: applied.append(options.debug))
    changed = {"debug": True, "graceful_shutdown_timeout": 7, "report_interval": 3}
    echo = make_echo(read_again=lambda: read_options([], explicit={"DEFAULT": changed}))
    before = echo.seconds_to_end()
    with capture_logs() as lines:
        echo.reload()
    said = {each["option"]: each["result"] for each in lines if "option" in each}
    assert said == {
        "[DEFAULT] debug": "taken up",
        "[DEFAULT] graceful_shutdown_timeout": "taken up",
        "[DEFAULT] report_interval": "changes with a restart",
    }
    assert (applied, echo.seconds_to_end()) == ([True], 7)
    assert before != 7


def counts(metrics):
    """(Result of `say`) -> number of calls."""
    families = text_string_to_metric_families(metrics.render().decode())
    samples = [each for family in families for each in family.samples if each.name == "roost_rpc_requests_total"]
    return {each.labels["result"]: each.value for each in samples if each.labels["method"] == "say" and each.value}


@pytest.mark.parametrize(
    ("problem", "result"),
    [(None, "ok"), (nova_failure("NoValidHost", "none"), "expected_error"), (KeyError("x"), "error")],
)
def test_calls_are_counted_by_their_result_once_they_are_answered(problem, result):
    clock, metrics = TurnedClock(), Metrics({"say"})

    def say(context):
        clock.seconds += 2
        if problem is not None:
            raise problem

    context = RequestContext.new("req-1", "ann", "blue")
    with pytest.raises(type(problem)) if problem else nullcontext():
        measured("say", say, clock, metrics)(context)
    assert counts(metrics) == {}
    context.answered()
    assert counts(metrics) == {result: 1.0}
    assert 'roost_rpc_request_duration_seconds_sum{method="say"} 2.0' in metrics.render().decode()
