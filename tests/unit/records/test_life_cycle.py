# SPDX-License-Identifier: Apache-2.0
"""The life cycle as a table: what must hold for all of its steps."""

import pytest

from roost.messages.objects.selections import SelectedHost, selection_to_object
from roost.records.server import DELETED, DELETING, ERROR, TASK_STATES, VM_STATES, Server, TaskData
from roost.records.server_steps import CONDUCTOR, KEEP, LIFE_CYCLE, PREVIOUS, WORK, cannot_while, next_work

TARGET = selection_to_object(SelectedHost("h2", "n2", "u2", "", {}, None, None))


def reachable():
    """Every pair of vm_state and task_state that a new server can get into."""
    found, left = set(), [("building", "scheduling")]
    while left:
        state = left.pop()
        if state in found:
            continue
        found.add(state)
        for step in LIFE_CYCLE.values():
            if step.is_legal(*state):
                tasks = state[1] if step.task_state == KEEP else step.task_state
                vm_states = (
                    ("active", "stopped", "error") if step.vm_state == PREVIOUS else (step.vm_state or state[0],)
                )
                left += [(vm_state, tasks) for vm_state in vm_states]
    return found


def test_states_of_the_table_are_known():
    for step in LIFE_CYCLE.values():
        assert set(step.vm_states) <= set(VM_STATES), step
        assert set(step.task_states) <= {None, *TASK_STATES}, step
        assert step.vm_state in (None, PREVIOUS, *VM_STATES), step
        assert step.task_state in (None, KEEP, *TASK_STATES), step


def test_every_state_but_deleted_can_be_left_by_a_deletion():
    for vm_state, task_state in reachable():
        assert LIFE_CYCLE["delete"].is_legal(vm_state, task_state) == (vm_state != DELETED)


def test_what_cannot_be_done_now_is_said_in_the_words_of_nova():
    idle, busy = Server("u", "n", "shelved_offloaded"), Server("u", "n", "active", "migrating")
    words = "Cannot 'shelveOffload' instance u while it is in"
    assert cannot_while(idle, "shelveOffload").message == f"{words} vm_state shelved_offloaded"
    assert cannot_while(busy, "shelveOffload").message == f"{words} task_state migrating"


def test_nothing_leaves_deleted():
    assert not [step for step in LIFE_CYCLE.values() if DELETED in step.vm_states]


def test_every_task_can_end():
    """From every reachable state with a task, a step or two lead to one without, other than by a deletion."""
    for vm_state, task_state in reachable():
        if task_state in (None, DELETING):
            continue
        ends = [
            step
            for step in LIFE_CYCLE.values()
            if step.is_legal(vm_state, task_state) and step.task_state is None and step.name != "delete"
        ]
        later = [step for step in LIFE_CYCLE.values() if step.is_legal(vm_state, task_state)]
        assert ends or any(step.task_state not in (task_state, DELETING) for step in later), (vm_state, task_state)


def test_a_server_that_builds_can_always_fail():
    assert LIFE_CYCLE["fail build"].vm_state == ERROR
    for vm_state, task_state in reachable():
        if vm_state == "building" and task_state not in (None, DELETING):
            assert LIFE_CYCLE["fail build"].is_legal(vm_state, task_state)


@pytest.mark.parametrize("task_state", TASK_STATES)
@pytest.mark.parametrize("target", [None, TARGET])
def test_every_task_has_a_receiver_with_or_without_a_target(task_state, target):
    server = Server("u", "n", "active", task_state, host="h1", task=TaskData(target=target, source=("h0", "n0")))
    found = next_work(server)
    assert (found.host is None) == (found.work.receiver == CONDUCTOR)
    assert (found.work.if_down is None) == (found.work.receiver == CONDUCTOR)


def test_a_deletion_of_a_server_without_a_host_is_for_a_conductor():
    assert next_work(Server("u", "n", "building", DELETING)).host is None
    assert next_work(Server("u", "n", "building", DELETING)).work.method == "delete_unplaced"
    assert next_work(Server("u", "n", "active", DELETING, host="h1")).host == "h1"


def test_an_idle_server_has_no_work():
    assert next_work(Server("u", "n", "active")) is None


def test_there_is_nothing_to_do_for_a_task_that_is_not_known():
    assert next_work(Server("u", "n", "active", "image_snapshot")) is None


def test_work_covers_each_task_once():
    keys = [(each.task_state, each.has_target) for each in WORK]
    assert len(keys) == len(set(keys))
    assert {each.task_state for each in WORK} == set(TASK_STATES)


def test_task_data_survive_json():
    task = TaskData(action="build", target=TARGET, alternates=(TARGET,), batch=("a", "b"), source=("h", "n"))
    assert TaskData.from_json(task.to_json()) == task
    assert TaskData.from_json(None) == TaskData()
    assert TaskData.from_json({"of_a_newer_version": 1}) == TaskData()
