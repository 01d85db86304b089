# SPDX-License-Identifier: Apache-2.0
"""The bounds of work that keeps a CPU busy: how much at once, and for how long."""

import pytest
from tests.clocks import HandClock

from roost.api.bounded_work import BoundedWork, Deadline, Overloaded


def test_what_exceeds_the_bound_is_refused_until_a_share_is_given_back():
    work = BoundedWork(1)
    with work.share(), pytest.raises(Overloaded, match="try again in 2 s"), work.share():
        pass
    with work.share():
        pass


def test_a_share_is_given_back_after_a_failure():
    work = BoundedWork(1)
    with pytest.raises(ValueError, match="wrong"), work.share():
        raise ValueError("wrong")
    with work.share():
        pass


def test_a_deadline_refuses_when_its_time_is_over():
    clock = HandClock()
    deadline = Deadline(clock, 20)
    clock.seconds += 20
    deadline.check()
    clock.seconds += 1
    with pytest.raises(Overloaded, match="longer than 20 s"):
        deadline.check()
