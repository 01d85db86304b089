# SPDX-License-Identifier: Apache-2.0
"""Schedulers and the broker go away under load: no request is answered or booked twice, and work goes on."""

from tests.services.load import Load, check_books

RECOVERS_SECONDS = 10
ENOUGH = 30
"""Answers that show that requests flow."""
OF_USUAL = 10
"""Where the machine is so busy that ENOUGH answers took seconds before, so many times as long is allowed."""


def test_one_of_two_schedulers_is_killed_under_load(make_stack):
    stack = make_stack(schedulers=2)
    with Load(stack) as load:
        usual = load.wait_for_answers(ENOUGH)
        stack.schedulers[0].kill()
        load.wait_for_answers(ENOUGH, max(RECOVERS_SECONDS, OF_USUAL * usual))
        stack.schedulers[0].start()
        stack.schedulers[0].wait_until_ready()
        load.wait_for_answers(ENOUGH)
    check_books(stack, load.outcomes)


def test_the_broker_is_restarted_under_load(make_stack, broker):
    stack = make_stack(schedulers=2)
    with Load(stack) as load:
        usual = load.wait_for_answers(ENOUGH)
        broker.kill()
        broker.start_again()
        load.wait_for_answers(ENOUGH, max(RECOVERS_SECONDS, OF_USUAL * usual))
    check_books(stack, load.outcomes)
    for scheduler in stack.schedulers:
        scheduler.wait_until_ready()


def test_a_scheduler_that_is_stopped_answers_what_it_took(make_stack):
    stack = make_stack(schedulers=2)
    with Load(stack) as load:
        load.wait_for_answers(ENOUGH)
        assert stack.schedulers[0].stop() == 0
        load.wait_for_answers(ENOUGH)
    assert [each.error for each in load.outcomes if each.error] == []
    check_books(stack, load.outcomes)
