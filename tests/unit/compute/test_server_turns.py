# SPDX-License-Identifier: Apache-2.0
"""Work on one server is done in turn, whichever thread brings it."""

import threading

import pytest

from roost.compute.parts import ServerTurns


@pytest.fixture
def turns():
    return ServerTurns()


def test_work_that_comes_during_other_work_is_done_after_it(turns):
    done = []

    def build():
        turns.run("s", "delete", lambda: done.append("deleted"))
        done.append("built")

    turns.run("s", "build", build)
    assert done == ["built", "deleted"]


def test_work_that_comes_from_another_thread_does_not_keep_it(turns):
    done, has_begun, may_end = [], threading.Event(), threading.Event()

    def build():
        has_begun.set()
        may_end.wait(10)
        done.append("built")

    builder = threading.Thread(target=turns.run, args=("s", "build", build))
    builder.start()
    has_begun.wait(10)
    turns.run("s", "delete", lambda: done.append("deleted"))
    assert done == []
    may_end.set()
    builder.join(10)
    assert done == ["built", "deleted"]


def test_doubled_work_is_done_once_while_it_runs_or_waits(turns):
    done = []

    def build():
        done.append("build")
        for _ in range(2):
            turns.run("s", "build", build)
            turns.run("s", "delete", lambda: done.append("delete"))

    turns.run("s", "build", build)
    assert done == ["build", "delete"]
    turns.run("s", "delete", lambda: done.append("again"))
    assert done[-1] == "again"


def test_servers_do_not_wait_for_each_other(turns):
    done = []
    turns.run("s", "build", lambda: turns.run("t", "build", lambda: done.append("t")))
    assert done == ["t"]


def test_what_may_only_be_done_to_an_idle_server_is_left_out_otherwise(turns):
    outcomes = []
    turns.run("s", "build", lambda: outcomes.append(turns.run_if_idle("s", lambda: None)))
    outcomes.append(turns.run_if_idle("s", lambda: None))
    assert outcomes == [False, True]


def test_a_server_is_free_again_after_work_that_was_killed(turns):
    def kill():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turns.run("s", "build", kill)
    assert turns.run_if_idle("s", lambda: None)
