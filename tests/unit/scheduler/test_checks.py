# SPDX-License-Identifier: Apache-2.0
"""Checks are evaluated for all hosts while most are left; the result is the same as for the remaining hosts alone."""

import numpy as np
import pytest

from roost.errors import RuleError
from roost.filters.base import HostFilter
from roost.scheduler.checks import Check, filter_check, narrow
from roost.testing import make_hosts, make_spec

FOUR = make_hosts(host=["a", "b", "c", "d"], num_io_ops=[9, 0, 0, 5])


def question(ask):
    return Check("filter", "a question", ask, lambda host: "")


FEWER_THAN_NINE = question(lambda hosts: hosts.num_io_ops < 9)


def stumbles_over(number):
    """A rule that cannot be asked about hosts with this many operations."""

    def ask(hosts):
        if (hosts.num_io_ops == number).any():
            raise RuleError("a rule", "cannot tell", "ValueError")
        return hosts.num_io_ops < 3

    return question(ask)


class SeesHosts(HostFilter):
    def __init__(self):
        super().__init__()
        self.seen = []

    def host_passes(self, host_state, spec_obj):
        self.seen.append(host_state.host)
        return True


def lost(checks):
    return [asked.lost().tolist() if asked.takes_out else None for asked in narrow(FOUR.in_the_running(), checks)]


def test_those_who_fall_out_do_so_at_one_question():
    checks = [FEWER_THAN_NINE, question(None), question(lambda hosts: hosts.num_io_ops < 3), FEWER_THAN_NINE]
    assert lost(checks) == [[0], None, [3], None]


def test_an_error_about_a_host_that_is_out_already_is_none():
    assert lost([FEWER_THAN_NINE, stumbles_over(9)]) == [[0], [3]]


def test_an_error_about_a_host_that_is_left_is_one():
    with pytest.raises(RuleError):
        lost([FEWER_THAN_NINE, stumbles_over(5)])


def test_a_filter_of_other_people_never_sees_a_host_that_is_out():
    rule = SeesHosts()
    assert lost([FEWER_THAN_NINE, filter_check(rule, make_spec())]) == [[0], None]
    assert rule.seen == ["b", "c", "d"]


def test_once_few_are_left_nobody_else_is_asked():
    asked = []

    def ask(hosts):
        asked.append(len(hosts))
        return np.ones(len(hosts), dtype=np.bool_)

    lost([question(lambda hosts: hosts.num_io_ops == 5), question(ask)])
    assert asked == [1]
