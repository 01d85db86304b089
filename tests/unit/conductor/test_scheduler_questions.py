# SPDX-License-Identifier: Apache-2.0
"""Questions to schedulers: repeated while there is no answer, with a refusal's summary."""

import random

import pytest
from tests.unit.compute.agents import SMALL, TurnedClock

from roost.conductor.questions import MOST_TRIES, SchedulerQuestions, with_summary, without_failed
from roost.errors import RemoteFailure, RemoteNoValidHost, RpcTimeout, RpcUnreachable
from roost.messages.context import RequestContext
from roost.messages.objects.selections import SelectedHost
from roost.model import RequestSpec
from roost.records.server import Attempt

CONTEXT = RequestContext.new("req-1", "ann", "blue", roles=["member"])
CHOSEN = SelectedHost("a", "a", "node-a", "", {}, None, None)
SPEC = RequestSpec(flavor=SMALL)


class ScriptedClient:
    """Answers with the next result, or raises it."""

    def __init__(self, *results):
        self.results, self.asked = list(results), []

    def select_destinations(self, context, spec, uuids, return_objects, return_alternates):
        self.asked.append((context, spec, uuids, return_alternates))
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def questions(*results):
    client, clock = ScriptedClient(*results), TurnedClock()
    return SchedulerQuestions(client, clock, random.Random(1)), client, clock


@pytest.mark.parametrize(
    "trouble", [RpcTimeout("late"), RpcUnreachable("away"), RemoteFailure("NovaException", "no database")]
)
def test_a_question_without_an_answer_is_asked_again_after_a_pause(trouble):
    asking, client, clock = questions(trouble, trouble, [[CHOSEN]])
    assert asking.select_one(CONTEXT, SPEC, "u") == [CHOSEN]
    assert len(client.asked) == 3
    assert 0 < clock.seconds < 1


def test_after_many_tries_the_last_error_is_raised():
    asking, client, clock = questions(*[RpcTimeout("late")] * MOST_TRIES)
    with pytest.raises(RpcTimeout):
        asking.select_one(CONTEXT, SPEC, "u")
    assert len(client.asked) == MOST_TRIES
    assert clock.seconds < 20


@pytest.mark.parametrize("answer", [RemoteNoValidHost("NoValidHost", "no"), RemoteFailure("Invalid", "wrong")])
def test_a_refusal_is_an_answer_and_not_asked_for_again(answer):
    asking, client, _ = questions(answer)
    with pytest.raises(type(answer)):
        asking.select(CONTEXT, SPEC, ["u"])
    assert len(client.asked) == 1


def test_the_request_says_how_many_instances_it_is_for_and_asks_for_the_summary():
    asking, client, _ = questions([[CHOSEN], [CHOSEN]])
    asking.select(CONTEXT, SPEC, ["u", "v"])
    context, spec, uuids, _ = client.asked[0]
    assert (spec.num_instances, uuids) == (2, ["u", "v"])
    assert context.values == {"roles": ["member"], "roost_summary": True}
    assert with_summary(CONTEXT).request_id == "req-1"


def test_an_alternate_is_asked_for_by_name_and_may_be_refused():
    asking, client, _ = questions([[CHOSEN]], RemoteNoValidHost("NoValidHost", "full"))
    assert asking.claim_alternate(CONTEXT, SPEC, "u", CHOSEN) == CHOSEN
    assert asking.claim_alternate(CONTEXT, SPEC, "u", CHOSEN) is None
    wanted = client.asked[0][1].requested_destination
    assert (wanted.host, wanted.node) == ("a", "a")


def test_hosts_that_failed_are_left_out_beside_those_that_were_before():
    spec = without_failed(SPEC.changed(ignore_hosts=("x", "a")), [Attempt("a", "a", "r"), Attempt("b", "b", "r")])
    assert spec.ignore_hosts == ("x", "a", "b")
    assert (spec.retry.num_attempts, spec.retry.hosts) == (2, (("a", "a"), ("b", "b")))
    assert without_failed(SPEC, ()) is SPEC
