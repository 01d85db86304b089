# SPDX-License-Identifier: Apache-2.0
"""Who passed and who fell where, patched as hosts change, against every question put to every host."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.filters.affinity import DifferentHostFilter, SameHostFilter
from roost.filters.compute import ComputeFilter
from roost.filters.io_ops import IoOpsFilter
from roost.filters.retry import RetryFilter
from roost.filters.server_group import ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter
from roost.hosts import Inventory
from roost.hosts.row_changes import ChangeLog
from roost.model.decision import Step
from roost.scheduler import Pipeline
from roost.scheduler.checks import Check, narrow
from roost.scheduler.incremental import survivors as survivors_module
from roost.scheduler.incremental.survivors import (
    PASSED,
    SurvivorsOfAnySize,
    SurvivorsOfOneRequest,
    SurvivorsOfOneSize,
)
from roost.testing import make_hosts, make_records, make_spec

GPU = "CUSTOM_GPU"
UP, RAM, IO = frozenset({"is_up"}), frozenset({"allocated:MEMORY_MB"}), frozenset({"num_io_ops"})
ALONE, TOGETHER = 1000, 0
"""Values of the constant that says how many rows are asked one by one."""


def fleet(count=40):
    """Hosts with room, a few of which fall at one question or another."""
    return make_hosts(
        host=[f"h{row:02}" for row in range(count)],
        vcpus_total=8,
        total_usable_ram_mb=8192,
        total_usable_disk_gb=100,
        num_io_ops=[9 if row % 7 == 3 else 0 for row in range(count)],
        service=[{"up": row % 5 != 2, "disabled": row % 11 == 6} for row in range(count)],
        traits=[{"CUSTOM_GOLD"} if row % 13 else set() for row in range(count)],
        resources=[{GPU: Inventory(4, step_size=2 if row % 6 == 5 else 1)} for row in range(count)],
    )


SPEC = make_spec(
    vcpus=2,
    memory_mb=2048,
    root_gb=10,
    ignore_hosts=["h01", "h04"],
    extra_specs={"trait:CUSTOM_GOLD": "required", f"resources:{GPU}": "1"},
)
PIPELINE = Pipeline([ComputeFilter(), IoOpsFilter()], [])


def all_checks(table, spec=SPEC, pipeline=PIPELINE):
    return pipeline.rules.checks(table, spec, 0)


def but_room(checks):
    return [check for check in checks if not check.is_about_room]


def of_any_size(table, spec=SPEC, pipeline=PIPELINE):
    return SurvivorsOfAnySize(table, but_room(all_checks(table, spec, pipeline)))


def of_one_size(table, spec=SPEC, pipeline=PIPELINE):
    return SurvivorsOfOneSize(of_any_size(table, spec, pipeline), all_checks(table, spec, pipeline), spec.amounts)


def codes_of(table, checks):
    """The obvious way: each host by itself, question after question."""
    asked = [(number, check.ask) for number, check in enumerate(checks) if check.ask is not None]
    return [
        next((number for number, ask in asked if not ask(table.one(row))[0]), PASSED) for row in range(len(table))
    ]


def write(table, row, column, value):
    if column in table.encoded:
        table.encoded[column].set(row, value)
    else:
        table.writable_column(column)[row] = value


CHANGES = {
    "is_up": [True, False],
    "is_disabled": [True, False],
    "num_io_ops": [0, 9],
    "traits": [frozenset(), frozenset({"CUSTOM_GOLD"})],
    "allocated:MEMORY_MB": [0, 6144, 6145],
    "allocated:VCPU": [0, 7],
    f"allocated:{GPU}": [0, 4],
    "failed_builds": [0, 1],
}
"""Column -> values, some of which take a host out; the last one is for nobody to see."""
ONE_CHANGE = st.sampled_from(list(CHANGES)).flatmap(
    lambda column: st.tuples(st.integers(0, 39), st.just(column), st.sampled_from(CHANGES[column]))
)
ROUNDS = st.lists(st.lists(ONE_CHANGE, min_size=1, max_size=30), min_size=1, max_size=5)


def state_of(survivors):
    return list(survivors.codes), survivors.counts, survivors.left, survivors.steps, survivors.passed().tolist()


# --- all hosts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [of_any_size, of_one_size])
def test_the_code_of_a_host_is_the_number_of_the_first_question_that_it_fails(build):
    table = fleet()
    survivors = build(table)
    assert list(survivors.codes) == codes_of(table, survivors.checks)
    assert len(set(survivors.codes)) > 4


@pytest.mark.parametrize("build", [of_any_size, of_one_size])
def test_counts_are_those_of_the_codes_and_add_up_to_all_hosts(build):
    survivors = build(fleet())
    assert survivors.counts == [list(survivors.codes).count(code) for code in range(PASSED + 1)]
    assert survivors.left == survivors.counts[PASSED]


@pytest.mark.parametrize("build", [of_any_size, of_one_size])
def test_each_step_starts_with_those_that_the_one_before_left(build):
    survivors = build(fleet())
    ends = [len(survivors.codes), *(step.after for step in survivors.steps)]
    assert [step.before for step in survivors.steps] == ends[:-1]
    assert ends[-1] == survivors.left


def test_steps_are_those_of_asking_all_hosts_in_turn():
    table = fleet()
    checks, left, steps = all_checks(table), len(table), []
    for asked in narrow(table.in_the_running(), checks):
        steps.append(Step(asked.check.stage, asked.check.name, left, asked.left))
        left = asked.left
    assert of_one_size(table).steps == tuple(steps)


def test_steps_end_with_the_question_after_which_nobody_is_left():
    table = make_hosts(2, vcpus_total=8, total_usable_ram_mb=8192)
    steps = of_one_size(table, make_spec(memory_mb=9000)).steps
    assert [(step.name, step.before, step.after) for step in steps] == [
        ("disabled", 2, 2),
        ("vcpu", 2, 2),
        ("ram", 2, 0),
    ]


def test_fallen_are_the_questions_that_took_somebody_out_with_whom():
    table = make_hosts(vcpus_total=8, total_usable_ram_mb=[8192, 512, 8192, 256], service=[{}, {}, {"up": False}, {}])
    fallen = of_one_size(table, make_spec(memory_mb=1024)).fallen()
    assert [(check.name, rows.tolist()) for check, rows in fallen] == [("ram", [1, 3]), ("ComputeFilter", [2])]


def test_those_who_did_not_pass_get_the_key_of_the_absent():
    table = make_hosts(vcpus_total=8, total_usable_ram_mb=8192, service=[{}, {"up": False}, {}])
    keys = of_any_size(table, make_spec()).only(np.array([1.0, 2.0, 3.0]), np.inf)
    assert keys.tolist() == [1.0, np.inf, 3.0]


def test_an_empty_fleet_has_no_survivors_and_no_steps():
    survivors = of_one_size(make_hosts(0))
    assert (survivors.left, survivors.steps, survivors.passed().tolist()) == (0, (), [])


# --- questions for room among the others -------------------------------------------------------------


def test_questions_after_those_for_room_are_numbered_after_them():
    table = make_hosts(vcpus_total=8, total_usable_ram_mb=8192, service=[{"up": False}, {}])
    survivors = of_one_size(table, make_spec())
    assert survivors.checks[survivors.codes[0]].name == "ComputeFilter"
    assert [check.name for check in survivors.checks] == ["disabled", "vcpu", "ram", "ComputeFilter", "IoOpsFilter"]


@pytest.mark.parametrize(
    ("disabled", "up", "name"), [(True, False, "disabled"), (False, False, "ram"), (False, True, "ram")]
)
def test_a_host_without_room_falls_there_unless_it_fell_before(disabled, up, name):
    table = make_hosts(1, vcpus_total=8, total_usable_ram_mb=512, service={"disabled": disabled, "up": up})
    survivors = of_one_size(table, make_spec(memory_mb=1024))
    assert survivors.checks[survivors.codes[0]].name == name


def test_of_two_amounts_that_a_host_lacks_the_first_counts():
    table = make_hosts(1, vcpus_total=1, total_usable_ram_mb=512)
    survivors = of_one_size(table, make_spec(vcpus=2, memory_mb=1024))
    assert survivors.checks[survivors.codes[0]].name == "vcpu"


def test_without_questions_for_room_one_size_is_like_any():
    table, pipeline = fleet(), Pipeline([ComputeFilter(), IoOpsFilter()], [], checks_capacity=False)
    assert state_of(of_one_size(table, SPEC, pipeline)) == state_of(of_any_size(table, SPEC, pipeline))


def test_without_questions_for_room_a_change_is_followed_too():
    table, pipeline = fleet(), Pipeline([ComputeFilter(), IoOpsFilter()], [], checks_capacity=False)
    others = of_any_size(table, SPEC, pipeline)
    survivors = SurvivorsOfOneSize(others, all_checks(table, SPEC, pipeline), SPEC.amounts)
    write(table, 0, "is_up", False)
    write(table, 0, "allocated:MEMORY_MB", 8192)
    assert (others.recheck({0: UP | RAM}), survivors.recheck({0: UP | RAM})) == ([0], [0])
    assert state_of(survivors) == state_of(others)


# --- changes -----------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(ROUNDS, st.sampled_from([ALONE, TOGETHER, survivors_module.FEW]))
def test_after_any_changes_everything_is_as_if_built_anew(rounds, few):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(survivors_module, "FEW", few)
        table = fleet()
        others = of_any_size(table)
        one_size = SurvivorsOfOneSize(others, all_checks(table), SPEC.amounts)
        for changes in rounds:
            for row, column, value in changes:
                write(table, row, column, value)
            log = ChangeLog()
            for row, column, _ in changes:
                log.note(row, frozenset({column}))
            touched = log.rows_since(0)
            before = [bytes(each.codes) for each in (others, one_size)]
            moved = [others.recheck(touched), one_size.recheck(touched)]
            for survivors, old, came_or_went in zip((others, one_size), before, moved, strict=True):
                assert list(survivors.codes) == codes_of(table, survivors.checks)
                assert came_or_went == [
                    row for row in touched if (old[row] == PASSED) != (survivors.codes[row] == PASSED)
                ]
            assert state_of(others) == state_of(of_any_size(table))
            assert state_of(one_size) == state_of(of_one_size(table))


@pytest.mark.parametrize("few", [ALONE, TOGETHER])
@pytest.mark.parametrize(
    ("first", "then", "name"),
    [
        pytest.param({}, {"is_up": False}, "ComputeFilter", id="out"),
        pytest.param({"is_up": False}, {"is_up": True}, None, id="in"),
        pytest.param({"num_io_ops": 9}, {"is_up": False}, "ComputeFilter", id="earlier"),
        pytest.param({"num_io_ops": 9, "is_up": False}, {"is_up": True}, "IoOpsFilter", id="later"),
        pytest.param({"is_up": False}, {"num_io_ops": 9}, "ComputeFilter", id="a later one does not matter"),
        pytest.param({"is_up": False}, {"is_disabled": True}, "disabled", id="the first of all"),
    ],
)
def test_a_host_falls_at_the_first_question_that_it_fails_now(few, first, then, name, monkeypatch):
    monkeypatch.setattr(survivors_module, "FEW", few)
    table = make_hosts(3, vcpus_total=8, total_usable_ram_mb=8192)
    for column, value in first.items():
        write(table, 1, column, value)
    survivors = of_any_size(table, make_spec())
    for column, value in then.items():
        write(table, 1, column, value)
    survivors.recheck({1: frozenset(then)})
    assert survivors.codes[1] == (PASSED if name is None else [each.name for each in survivors.checks].index(name))
    assert (survivors.codes[0], survivors.codes[2]) == (PASSED, PASSED)


@pytest.mark.parametrize("few", [ALONE, TOGETHER])
def test_those_who_moved_came_in_or_fell_out(few, monkeypatch):
    monkeypatch.setattr(survivors_module, "FEW", few)
    table = make_hosts(vcpus_total=8, total_usable_ram_mb=8192, num_io_ops=[0, 9, 9, 0])
    survivors = of_any_size(table, make_spec())
    write(table, 0, "is_up", False)
    write(table, 1, "num_io_ops", 0)
    write(table, 2, "is_up", False)
    assert survivors.recheck(dict.fromkeys(range(4), UP | IO)) == [0, 1]


def test_steps_and_rows_follow_a_change():
    table = make_hosts(3, vcpus_total=8, total_usable_ram_mb=8192)
    survivors = of_any_size(table, make_spec())
    assert (survivors.steps[1].after, survivors.passed().tolist()) == (3, [0, 1, 2])
    write(table, 1, "is_up", False)
    survivors.recheck({1: UP})
    assert (survivors.steps[1].after, survivors.passed().tolist()) == (2, [0, 2])


class Counting:
    """A question that counts how many hosts it was put to."""

    def __init__(self, name, column):
        self.asked = 0
        self.check = Check("filter", name, self.ask, lambda host: name, reads=frozenset({column}))

    def ask(self, hosts):
        self.asked += len(hosts)
        return np.ones(len(hosts), dtype=np.bool_)


@pytest.mark.parametrize("few", [ALONE, TOGETHER])
def test_only_questions_about_what_changed_are_put_again(few, monkeypatch):
    monkeypatch.setattr(survivors_module, "FEW", few)
    up, io = Counting("up", "is_up"), Counting("io", "num_io_ops")
    survivors = SurvivorsOfAnySize(make_hosts(5), [up.check, io.check])
    survivors.recheck({0: UP, 3: UP})
    assert (up.asked, io.asked) == (5 + 2, 5)


@pytest.mark.parametrize("few", [ALONE, TOGETHER])
def test_a_question_that_does_not_say_what_it_reads_is_put_after_every_change(few, monkeypatch):
    monkeypatch.setattr(survivors_module, "FEW", few)
    unknown = Counting("unknown", "name")
    survivors = SurvivorsOfAnySize(make_hosts(5), [unknown.check._replace(reads=frozenset())])
    survivors.recheck({0: UP, 3: IO})
    assert unknown.asked == 5 + 2


def test_a_question_that_has_nothing_to_do_is_never_put():
    survivors = of_any_size(fleet(), make_spec(), Pipeline([ServerGroupAntiAffinityFilter()], []))
    assert survivors.asked_after(frozenset({"instances"})) == []


def test_however_many_kinds_of_change_there_are_the_right_questions_are_put():
    table = fleet()
    survivors = of_any_size(table)
    numbers = {check.name: number for number, check in enumerate(survivors.checks)}
    for number in range(600):
        survivors.asked_after(frozenset({f"column{number}"}))
    assert survivors.asked_after(UP) == [numbers["ComputeFilter"]]
    assert survivors.asked_after(IO | {"traits"}) == [numbers["traits"], numbers["IoOpsFilter"]]


# --- another request of the kind ---------------------------------------------------------------------


@pytest.mark.parametrize("few", [ALONE, TOGETHER])
def test_after_a_renewal_the_questions_are_those_of_the_other_request(few, monkeypatch):
    monkeypatch.setattr(survivors_module, "FEW", few)
    pipeline = Pipeline([ServerGroupAntiAffinityFilter()], [])
    table = make_hosts(vcpus_total=8, total_usable_ram_mb=8192, instances=[["u1"], ["u2"], []])

    def of_group(*members):
        return make_spec(instance_group={"policy": "anti-affinity", "members": members})

    survivors = of_any_size(table, of_group("u1"), pipeline)
    survivors.recheck({2: frozenset({"instances"})})
    checks = but_room(all_checks(table, of_group("u2"), pipeline))
    survivors.renew(checks, [len(checks) - 1])
    assert survivors.recheck(dict.fromkeys([0, 1], frozenset({"instances"}))) == [0, 1]
    assert survivors.passed().tolist() == [0, 2]


# --- questions of one request ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"ignore_hosts": ["h01", "H04", "h40"]},
        {"retry": {"hosts": [("h00", "h00"), ("h03", "h03")]}},
        {"scheduler_hints": {"different_host": ["u1"]}},
        {"scheduler_hints": {"same_host": ["u1", "u2"]}},
        {"instance_group": {"policy": "affinity", "hosts": ["h00", "h02", "h05"]}},
        {"ignore_hosts": ["h01"], "retry": {"hosts": [("h05", "h05")]}, "scheduler_hints": {"same_host": ["u1"]}},
        {"ignore_hosts": [f"h{row:02}" for row in range(40)]},
    ],
    ids=lambda fields: ", ".join(fields) or "none",
)
def test_questions_that_only_one_request_asks_are_numbered_as_in_the_plain_order(fields):
    own = [RetryFilter(), DifferentHostFilter(), SameHostFilter(), ServerGroupAffinityFilter()]
    pipeline = Pipeline([own[0], ComputeFilter(), *own[1:], IoOpsFilter()], [])
    table = fleet()
    table.update(0, make_records(host=["h00"], vcpus_total=8, total_usable_ram_mb=8192, instances=[["u1"]])[0])
    table.update(5, make_records(host=["h05"], vcpus_total=8, total_usable_ram_mb=8192, instances=[["u2"]])[0])
    plain = make_spec(vcpus=2, memory_mb=2048)
    checks = all_checks(table, make_spec(vcpus=2, memory_mb=2048, **fields), pipeline)
    survivors = SurvivorsOfOneRequest(of_one_size(table, plain, pipeline), checks)
    assert list(survivors.codes) == codes_of(table, checks)
    left, steps = len(table), []
    for asked in narrow(table.in_the_running(), checks):
        steps.append(Step(asked.check.stage, asked.check.name, left, asked.left))
        left = asked.left
    assert survivors.steps == tuple(steps)
