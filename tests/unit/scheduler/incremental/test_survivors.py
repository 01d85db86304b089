# SPDX-License-Identifier: Apache-2.0
"""Survivors that are patched as hosts change, against every check made for every host."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.incremental.compared import GPU, fleet

from roost.filters.compute import ComputeFilter
from roost.filters.io_ops import IoOpsFilter
from roost.hosts import Inventory
from roost.hosts.table import ChangeLog
from roost.scheduler.checks import Check, narrow
from roost.scheduler.incremental import survivors as survivors_module
from roost.scheduler.incremental.survivors import PASSED, SurvivorsOfAnySize, SurvivorsOfOneSize
from roost.scheduler.search import Rules
from roost.testing import make_hosts, make_spec

ONE_BY_ONE, IN_BULK = 1000, 0
"""Values of FEW, up to which rows are asked one by one."""
EXTRA_SPECS = {"trait:CUSTOM_GOLD": "required", f"resources:{GPU}": "1"}
SPEC = make_spec(vcpus=2, memory_mb=2048, root_gb=10, ignore_hosts=["h001", "h004"], extra_specs=EXTRA_SPECS)
RULES = Rules((ComputeFilter(), IoOpsFilter()), ())


def varied_fleet(count=40):
    """Hosts with room, some of which a check rejects."""
    return fleet(
        count,
        num_io_ops=[9 if row % 7 == 3 else 0 for row in range(count)],
        service=[{"up": row % 5 != 2, "disabled": row % 11 == 6} for row in range(count)],
        traits=[{"CUSTOM_GOLD"} if row % 13 else set() for row in range(count)],
        resources=[{GPU: Inventory(4, step_size=2 if row % 6 == 5 else 1)} for row in range(count)],
    )


def build(table, spec=SPEC, rules=RULES):
    """Survivors of any size and of the request's."""
    checks = rules.checks(table, spec, 0)
    of_any_size = SurvivorsOfAnySize(table, [check for check in checks if not check.is_about_room])
    return of_any_size, SurvivorsOfOneSize(of_any_size, checks, spec.amounts)


def codes_of(table, checks):
    """Of each host, made check after check by itself, the number of the first that rejects it."""
    asked = [(number, check.ask) for number, check in enumerate(checks) if check.ask is not None]
    return [
        next((number for number, ask in asked if not ask(table.one(row))[0]), PASSED) for row in range(len(table))
    ]


def check_invariants(survivors):
    """Codes, counts, rows and steps are those of a full scan."""
    table, codes = survivors.table, list(survivors.codes)
    assert codes == codes_of(table, survivors.checks)
    assert survivors.counts == [codes.count(code) for code in range(PASSED + 1)]
    passed = np.flatnonzero(np.array(codes) == PASSED).tolist()
    assert (survivors.left, survivors.passed().tolist()) == (len(passed), passed)
    left = [len(table), *(asked.left for asked in narrow(table.in_the_running(), survivors.checks))]
    assert [(step.before, step.after) for step in survivors.steps] == list(pairwise(left))
    rejected = [(row, check) for check, rows in survivors.fallen() for row in rows.tolist()]
    assert sorted(row for row, _ in rejected) == [row for row, code in enumerate(codes) if code != PASSED]
    assert all(survivors.checks[codes[row]] is check for row, check in rejected)


VALUES = {
    "is_up": [True, False],
    "is_disabled": [True, False],
    "num_io_ops": [0, 9],
    "traits": [frozenset(), frozenset({"CUSTOM_GOLD"})],
    "allocated:MEMORY_MB": [0, 63488, 63489],
    "allocated:VCPU": [0, 1024],
    f"allocated:{GPU}": [0, 4],
    "failed_builds": [0, 1],
}
"""Column -> values, of which some reject a host; no check reads the last column."""
ONE_CHANGE = st.sampled_from(list(VALUES)).flatmap(
    lambda column: st.tuples(st.integers(0, 39), st.just(column), st.sampled_from(VALUES[column]))
)


def write(table, changes):
    """Row -> changed columns, after these (row, column, value) are written."""
    log = ChangeLog()
    for row, column, value in changes:
        if column in table.encoded:
            table.encoded[column].set(row, value)
        else:
            table.writable_column(column)[row] = value
        log.note(row, frozenset({column}))
    return log.rows_since(0)


@settings(max_examples=60)
@given(
    rounds=st.lists(st.lists(ONE_CHANGE, min_size=1, max_size=30), max_size=5),
    few=st.sampled_from([ONE_BY_ONE, IN_BULK, survivors_module.FEW]),
    checks_capacity=st.sampled_from([True, True, False]),
)
def test_patched_survivors_are_those_of_checking_every_host(rounds, few, checks_capacity):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(survivors_module, "FEW", few)
        table = varied_fleet()
        pair = build(table, rules=Rules(RULES.filters, (), checks_capacity=checks_capacity))
        for changes in [[], *rounds]:
            touched = write(table, changes)
            for survivors in pair:
                before = bytes(survivors.codes)
                moved = survivors.recheck(touched)
                check_invariants(survivors)
                now = survivors.codes
                assert moved == [row for row in touched if (before[row] == PASSED) != (now[row] == PASSED)]


class CountedCheck:
    """A check that counts the hosts it is made for; all pass."""

    def __init__(self, *columns):
        self.asked = 0
        self.check = Check("filter", "counted", self.ask, lambda host: "", reads=lambda: frozenset(columns))

    def ask(self, hosts):
        self.asked += len(hosts)
        return np.ones(len(hosts), dtype=np.bool_)


@pytest.mark.parametrize("few", [ONE_BY_ONE, IN_BULK])
def test_only_checks_that_read_a_changed_column_or_do_not_declare_what_they_read_are_repeated(few, monkeypatch):
    monkeypatch.setattr(survivors_module, "FEW", few)
    up, io, undeclared = CountedCheck("is_up"), CountedCheck("num_io_ops"), CountedCheck()
    survivors = SurvivorsOfAnySize(make_hosts(5), [up.check, io.check, undeclared.check])
    survivors.recheck(dict.fromkeys([0, 3], frozenset({"is_up"})))
    assert [each.asked - 5 for each in (up, io, undeclared)] == [2, 0, 2]
