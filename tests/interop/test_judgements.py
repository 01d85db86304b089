# SPDX-License-Identifier: Apache-2.0
"""What `make interop` takes for right and wrong, without a cloud."""

import pytest
from tests.interop.__main__ import make_parser
from tests.interop.changeover import taken_by_a_stopping_scheduler
from tests.interop.checks import Checks, percentile_99, print_table
from tests.interop.faults import problems_in
from tests.interop.kills import Killed, compare
from tests.interop.readonly import database_users, only_reads
from tests.interop.same import compare_answers
from tests.interop.speed import wait_for_hosts
from tests.interop.varied_requests import KINDS, State, make_requests

NO_HOST = {"error": "NoValidHost"}
STATE = State(
    [f"host{number}" for number in range(8)],
    {f"server{number}": "host0" for number in range(9)},
    {"affinity": "group-1"},
    {"group-1": ["host0"]},
)


@pytest.mark.parametrize(
    ("ours", "theirs", "ties", "verdict"),
    [
        ({"hosts": ["a"]}, {"hosts": ["a"]}, [], "same host"),
        ({"hosts": ["a"]}, {"hosts": ["b"]}, ["a", "b"], "equal weight"),
        ({"hosts": ["a"]}, {"hosts": ["b"]}, ["a"], "DIFFERENT"),
        ({"hosts": ["a"]}, NO_HOST, ["a"], "DIFFERENT"),
        (NO_HOST, NO_HOST, [], "no host"),
        (NO_HOST, {"error": "MessagingTimeout"}, [], "DIFFERENT"),
        ({"error": "KeyError"}, {"error": "KeyError"}, [], "DIFFERENT"),
    ],
)
def test_choices_are_compared(ours, theirs, ties, verdict):
    assert compare_answers(ours, theirs, {"ties": ties}) == verdict


@pytest.mark.parametrize("text", ["SELECT 1", "set session transaction read only", "ROLLBACK"])
def test_statement_that_reads(text):
    assert only_reads(text)


@pytest.mark.parametrize(
    "text", ["UPDATE a SET b = 1", "select 1 for update", "set global general_log = 0", "CALL a()"]
)
def test_statement_that_writes_or_locks(text):
    assert not only_reads(text)


def test_lines_about_a_single_request_are_no_problem_of_the_service():
    problem = "2026-01-01T00:00:00Z WARNING roost.nova.backend placement does not answer"
    assert problems_in(f"{problem}\n... ERROR roost [req-1] failed\n... INFO roost ready") == [problem]


def test_one_in_a_hundred_exceeds_the_99th_percentile():
    assert percentile_99(range(1, 101)) == 100
    assert percentile_99(range(1, 201)) == 199
    assert percentile_99([]) == 0


def test_a_check_that_fails_is_counted_and_printed(capsys):
    checks = Checks()
    checks.see("two hosts", False, 1)
    checks.see("all answered", True)
    assert (checks.failed, capsys.readouterr().out) == (1, "WRONG two hosts: 1\nok   all answered\n")


def test_numbers_of_a_table_are_aligned_to_the_right(capsys):
    print_table("speed", ("name", "ms"), [("a", 1.0), ("long", 100.25)])
    assert capsys.readouterr().out == "\nspeed\n  name     ms\n  a       1.0\n  long  100.2\n\n"


def test_every_kind_of_request_is_drawn_and_new_each_time():
    drawn = list(make_requests(STATE, 2 * len(KINDS), seed=1))
    assert {kind for kind, _ in drawn} == set(KINDS)
    first, again = drawn[0][1](), drawn[0][1]()
    assert first["uuids"] != again["uuids"]
    assert first["size"] == again["size"]


@pytest.mark.parametrize(
    ("created", "message", "is_taken"),
    [
        ("1970-01-01T00:01:41Z", "MessagingTimeout", True),
        ("1970-01-01T00:01:41Z", "No valid host was found.", False),
        ("1970-01-01T00:01:51Z", "MessagingTimeout", False),
    ],
)
def test_only_a_request_without_an_answer_was_taken_by_a_stopping_scheduler(created, message, is_taken):
    failed = [{"created": created, "fault": {"message": message}}]
    assert taken_by_a_stopping_scheduler(failed, 100, 105) == (failed if is_taken else [])


def test_every_user_of_the_databases_that_roost_is_given_is_found(tmp_path):
    nova, own = tmp_path / "nova.conf", tmp_path / "roost.conf"
    nova.write_text("[database]\nconnection = mysql://root@h/a\n[api_database]\nconnection = mysql://root@h/b\n")
    own.write_text("[roost]\ncell_database_user = reader\n[api_database]\nconnection = mysql://reader:x@h/b\n")
    assert database_users(nova, own) == {"reader", "root"}
    assert database_users(nova) == {"(of the cell mappings)", "root"}


def test_hosts_that_never_come_are_not_waited_for_without_end():
    class Roost:
        def get(self, _):
            return 200, "roost_table_hosts 3.0\n"

    wait_for_hosts(Roost(), 3)
    with pytest.raises(TimeoutError, match="does not have 4 hosts"):
        wait_for_hosts(Roost(), 4, seconds=0, pause=0)


@pytest.mark.parametrize("at_once", [0, 2])
def test_kills_that_left_nothing_of_novas_are_no_comparison(capsys, at_once):
    checks = Checks()
    rows = [
        ("two Roost, one nova", "Roost", 8, 1, 1, 0, 0.0),
        ("three nova", "nova-scheduler", 12, 2, at_once, 0, 0.0),
    ]
    compare(checks, [Killed(*row) for row in rows])
    assert checks.failed == 0
    assert ("the comparison shows nothing" in capsys.readouterr().out) == (at_once == 0)


def test_all_parts_are_run_where_none_is_named(capsys):
    assert make_parser().parse_args([]).parts == []
    assert make_parser().parse_args(["speed", "races"]).parts == ["speed", "races"]
    with pytest.raises(SystemExit):
        make_parser().parse_args(["spead"])
    assert "'spead' is no part: client, openstack" in capsys.readouterr().err
