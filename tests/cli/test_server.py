# SPDX-License-Identifier: Apache-2.0
"""`roost server ...` against a conductor in memory: what is asked, printed and returned."""

import io
import sys

import pytest
from tests.cli.fake_conductor import NO_HOST, SUMMARY

from roost.errors import BadInput

UNKNOWN = "11111111-0000-4000-8000-000000000000"
VERBS = "delete start stop confirm revert migrate evacuate shelve unshelve rebuild".split()


# --- create ---


def test_a_server_is_waited_for_until_it_is_active(cloud):
    done = cloud("server", "create", "web", "--flavor", "small", "--image", "debian")
    assert (done.code, done.err) == (0, "")
    assert "ACTIVE" in done.out
    assert "1 server\n" in done.out
    assert cloud.clock.naps == pytest.approx([0.1, 0.15])


def test_the_request_says_all_that_was_asked_for(cloud):
    wanted = ["--count", 2, "--group", "g1", "--availability-zone", "north:a", "--host", "a"]
    hints = ["--hint", "same_host=u1", "--hint", "same_host=u2", "--hint", "colour=blue"]
    done = cloud("server", "create", "web", "--flavor", "small", *wanted, *hints, "--project", "blue", "-f", "json")
    assert cloud.conductor.calls[0] == (
        "create_servers",
        {
            "request": {
                "name": "web",
                "flavor": "small",
                "image": None,
                "count": 2,
                "group": "g1",
                "host": "a",
                "availability_zone": "north:a",
                "hints": {"same_host": ["u1", "u2"], "colour": "blue"},
            },
            "dry_run": False,
        },
    )
    context = cloud.conductor.contexts[0]
    assert (context.project_id, context.is_admin) == ("blue", True)
    assert [each["name"] for each in done.record] == ["web-1", "web-2"]


def test_without_waiting_the_server_is_being_built(cloud):
    done = cloud("server", "create", "web", "--flavor", "small", "--no-wait", "-f", "json")
    assert done.code == 0
    assert done.record[0]["status"] == "BUILD"
    assert cloud.clock.naps == []


def test_a_failed_build_prints_the_server_and_why(cloud):
    done = cloud("server", "create", "web", "--flavor", "huge")
    assert done.code == 1
    assert "ERROR" in done.out
    assert done.err == f"roost: server web: {NO_HOST} ({SUMMARY}; roost decision why web says what would help)\n"


def test_servers_that_fail_alike_are_told_in_one_line(cloud):
    done = cloud("server", "create", "web", "--flavor", "huge", "--count", 5)
    assert done.code == 1
    assert done.err.startswith(f"roost: servers web-1, web-2, web-3 and 2 more: {NO_HOST} (")
    assert done.err.count("\n") == 1


def test_a_build_that_takes_too_long_is_told_and_goes_on(cloud):
    cloud.conductor.looks = 1000
    done = cloud("server", "create", "web", "--flavor", "small", "--timeout", 30)
    assert done.code == 1
    assert done.err == "roost: server web: not complete after 30 seconds: BUILD, scheduling\n"
    assert sum(cloud.clock.naps) == pytest.approx(30)
    assert max(cloud.clock.naps) == 2.0


def test_a_server_that_is_deleted_while_it_is_built_is_told(cloud):
    cloud.conductor.fault = {"status": "DELETED"}
    done = cloud("server", "create", "web", "--flavor", "small")
    assert (done.code, done.err) == (1, "roost: server web: it was deleted meanwhile\n")


def test_a_build_that_cannot_be_seen_any_more_is_not_reported_as_nothing(cloud):
    """D31: such as with a token that expires meanwhile. Exit code 2 would say that nothing was changed."""
    cloud.conductor.get_server = refuse
    cloud("server", "create", "web", "--flavor", "small").assert_refused(
        "it was begun, and cannot be waited for: the token is not valid", code=1
    )


def refuse(context, server):
    raise BadInput("the token is not valid")


def test_a_dry_run_shows_the_plan(cloud):
    done = cloud("server", "create", "web", "--flavor", "small", "--dry-run")
    assert done.code == 0
    assert "1 of 1 placed on a" in done.out
    assert done.out.endswith("dry run: nothing was changed\n")
    assert cloud.conductor.servers == {}


def test_a_dry_run_without_a_host_says_why(cloud):
    cloud("server", "create", "web", "--flavor", "huge", "--dry-run").assert_refused(NO_HOST, SUMMARY, code=1)


@pytest.mark.parametrize(("count", "names"), [(1, ["web"]), (2, ["web-1", "web-2"])])
def test_a_dry_run_without_a_host_is_a_plan_without_hosts_for_scripts(cloud, count, names):
    done = cloud("server", "create", "web", "--flavor", "huge", "--count", count, "--dry-run", "-f", "json")
    step = {"server": None, "action": "create", "host": None, "summary": SUMMARY}
    assert done.record == {"plan": [{**step, "name": name} for name in names]}
    assert (done.code, done.err) == (1, f"roost: {NO_HOST} ({SUMMARY})\n")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("options", "is_shown"), [((), True), (("-q",), False)])
def test_what_is_waited_for_is_shown_on_a_terminal_alone(cloud, monkeypatch, options, is_shown):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    done = cloud(*options, "server", "create", "web", "--flavor", "small", "--count", 2, "-f", "json")
    assert [each["status"] for each in done.record] == ["ACTIVE", "ACTIVE"]
    assert ("1 of 2 complete; web-2: BUILD, scheduling" in terminal.getvalue()) is is_shown


# --- list and show ---


def test_a_list_shows_what_the_filters_let_through(cloud):
    cloud.conductor.add("web")
    cloud.conductor.add("db", host="b", status="ERROR", project="blue")
    assert cloud("server", "list", "-c", "name", "-f", "value").out == "web\ndb\n"
    done = cloud("server", "list", "--host", "b", "--project", "blue", "--status", "error", "--name", "db", "--long")
    assert "db" in done.out
    assert "web" not in done.out
    wanted = {"host": "b", "project_id": "blue", "status": "ERROR", "name": "db"}
    assert cloud.conductor.calls[-1] == ("list_servers", {"filters": wanted | {"limit": 1000}})


def test_a_list_of_more_servers_than_an_answer_has_is_complete(cloud):
    for number in range(2001):
        cloud.conductor.add(f"web-{number}")
    assert len(cloud("server", "list", "-f", "json").record) == 2001


def test_a_name_cannot_control_the_terminal(cloud):
    cloud.conductor.add("a\x1b[31mb\x07")
    for shape in ("table", "csv", "value"):
        assert "a [31mb " in cloud("server", "list", "-f", shape).out
    assert "\x1b" not in cloud("server", "show", "a\x1b[31mb\x07").out


def test_a_short_list_has_five_columns_and_a_long_one_has_all(cloud):
    cloud.conductor.add("web")
    short, long = cloud("server", "list").out, cloud("server", "list", "--long").out
    for title in ("ID", "Name", "Status", "Host", "Flavor"):
        assert f" {title} " in short
    assert " Project " not in short
    assert " Project " in long


def test_an_empty_list_says_so(cloud):
    done = cloud("server", "list")
    assert (done.code, done.out, done.err) == (0, "0 servers\n", "")
    assert cloud("server", "list", "-f", "json").record == []


def test_a_server_is_shown_field_by_field(cloud):
    cloud.conductor.add("web", attempts=[{"host": "b", "reason": "no memory"}], fault={"code": 500, "message": "so"})
    done = cloud("server", "show", "web", "-f", "csv")
    assert 'flavor,"small (2 vCPUs, 2048 MiB, 20 GB)"\n' in done.out
    assert "fault message,so\n" in done.out
    assert 'attempts,"host=b, reason=no memory"\n' in done.out
    assert "image,-\n" in done.out
    assert cloud("server", "show", "web", "-f", "json").record["name"] == "web"


# --- changes ---


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [
        (("start",), "SHUTOFF", "ACTIVE"),
        (("stop",), "ACTIVE", "SHUTOFF"),
        (("resize", "--flavor", "small"), "ACTIVE", "VERIFY_RESIZE"),
        (("confirm",), "VERIFY_RESIZE", "ACTIVE"),
        (("revert",), "VERIFY_RESIZE", "ACTIVE"),
        (("migrate",), "ACTIVE", "VERIFY_RESIZE"),
        (("migrate", "--live", "--host", "b"), "ACTIVE", "ACTIVE"),
        (("shelve",), "ACTIVE", "SHELVED_OFFLOADED"),
        (("unshelve",), "SHELVED_OFFLOADED", "ACTIVE"),
        (("rebuild", "--image", "debian"), "ERROR", "ACTIVE"),
        (("delete",), "ERROR", "DELETED"),
    ],
)
def test_a_change_is_seen_through(cloud, verb, before, after):
    cloud.conductor.add("web", status=before)
    done = cloud("server", verb[0], "web", *verb[1:], "-f", "json")
    assert (done.code, done.err) == (0, "")
    assert [each["status"] for each in done.record] == [after]
    assert cloud.clock.naps


def test_servers_of_a_dead_host_are_evacuated(cloud):
    cloud.conductor.add("web")
    cloud("server", "evacuate", "web").assert_refused("host a is up")
    cloud.conductor.hosts["a"]["state"] = "down"
    done = cloud("server", "evacuate", "web", "-f", "json")
    assert [(each["status"], each["host"]) for each in done.record] == [("ACTIVE", "b")]


@pytest.mark.parametrize("verb", [("evacuate",), ("migrate", "--live")])
def test_all_servers_of_a_host_are_moved(cloud, verb):
    cloud.conductor.hosts["a"]["state"] = "down"
    for name, host in (("one", "a"), ("two", "b"), ("three", "a")):
        cloud.conductor.add(name, host=host)
    done = cloud("server", *verb, "--from", "a", "-f", "json")
    assert (done.code, done.err) == (0, "")
    assert [(each["name"], each["host"]) for each in done.record] == [("one", "b"), ("three", "b")]
    assert cloud("server", *verb, "--from", "a").out == "0 servers\n"


def test_the_arguments_of_a_move_are_passed_on(cloud):
    for name in ("web", "db"):
        cloud.conductor.add(name)
    cloud("server", "migrate", "web", "--live", "--host", "b", "--force", "--no-wait")
    assert cloud.conductor.calls[-1][1] | {"server": ""} == {
        "server": "", "host": "b", "force": True, "dry_run": False
    }  # fmt: skip
    cloud("server", "migrate", "db", "--host", "b", "--no-wait")
    assert cloud.conductor.calls[-1][0] == "migrate_server_cold"


def test_a_live_migration_that_was_taken_back_has_failed(cloud):
    cloud.conductor.add("web")
    cloud.conductor.fault = {"status": "ACTIVE", "code": 500, "message": "the guest does not converge"}
    done = cloud("server", "migrate", "web", "--live")
    assert (done.code, done.err) == (1, "roost: server web: the guest does not converge\n")
    cloud.conductor.fault = {"status": "ACTIVE"}
    assert (
        cloud("server", "migrate", "web", "--live").err
        == "roost: server web: it failed, and the server is ACTIVE on a\n"
    )


def test_an_old_fault_is_not_the_reason_of_a_failed_move(cloud):
    cloud.conductor.fault = {"status": "ACTIVE", "code": 500, "message": "the fault of last week"}
    cloud.conductor.add("web", fault=cloud.conductor.fault)
    for what in (("web",), ("--from", "a")):
        done = cloud("server", "migrate", *what, "--live")
        assert (done.code, done.err) == (1, "roost: server web: it failed, and the server is ACTIVE on a\n")


def test_a_resize_that_was_taken_back_has_failed(cloud):
    cloud.conductor.add("web")
    cloud.conductor.fault = {"status": "ACTIVE", "message": "Not enough memory."}
    done = cloud("server", "resize", "web", "--flavor", "small")
    assert (done.code, done.err) == (1, "roost: server web: Not enough memory.\n")


def test_several_servers_are_deleted_at_once(cloud):
    for name in ("one", "two", "three"):
        cloud.conductor.add(name)
    done = cloud("server", "delete", "one", "two", "one", "-f", "json")
    assert done.code == 0
    assert [each["name"] for each in done.record] == ["one", "two"]
    assert [each["name"] for each in cloud.conductor.servers.values()] == ["three"]


def test_an_unknown_server_among_several_leaves_all_as_they_are(cloud):
    cloud.conductor.add("one")
    cloud("server", "delete", "one", "two").assert_refused("there is no server two")
    assert len(cloud.conductor.servers) == 1


@pytest.mark.parametrize("wait", [(), ("--no-wait",)])
def test_a_server_that_cannot_be_changed_does_not_stop_the_others(cloud, wait):
    cloud.conductor.add("one", status="SHUTOFF", vm_state="stopped")
    cloud.conductor.add("two")
    done = cloud("server", "stop", "one", "two", *wait, "-f", "json")
    assert done.code == 1  # 2 says that nothing was changed
    assert done.err.count("\n") == 1
    assert "stop is not possible while it is stopped/idle" in done.err
    assert [each["name"] for each in done.record] == ["two"]


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_where_none_of_several_servers_can_be_changed_the_input_was_wrong(cloud, options):
    for name in ("one", "two"):
        cloud.conductor.add(name, status="SHUTOFF", vm_state="stopped")
    done = cloud("server", "stop", "one", "two", *options)
    assert (done.code, done.err.count("\n")) == (2, 2)


@pytest.mark.parametrize("verb", VERBS)
def test_a_dry_run_of_a_change_changes_nothing(cloud, verb):
    states = {"start": "SHUTOFF", "confirm": "VERIFY_RESIZE", "revert": "VERIFY_RESIZE"}
    states["unshelve"] = "SHELVED_OFFLOADED"
    cloud.conductor.hosts["a"]["state"] = "down"
    server = cloud.conductor.add(
        "web", status=states.get(verb, "SHELVED_OFFLOADED" if verb == "unshelve" else "ACTIVE")
    )
    before = dict(server)
    done = cloud("server", verb, "web", "--dry-run", "-f", "json")
    assert (done.code, done.err) == (0, "")
    assert [each["name"] for each in done.record["plan"]] == ["web"]
    assert server == before


def test_a_dry_run_of_several_moves_says_that_each_was_planned_by_itself(cloud):
    cloud.conductor.hosts["a"]["state"] = "down"
    for name in ("one", "two", "three"):
        cloud.conductor.add(name)
    lines = cloud("server", "evacuate", "--from", "a", "--dry-run").out.splitlines()
    assert lines[-5:] == [
        *(f"{name}: 1 of 1 placed on b" for name in ("one", "two", "three")),
        "each was planned by itself: what one of them would take still counts as free for the next",
        "dry run: nothing was changed",
    ]


def test_a_dry_run_of_one_move_has_one_summary(cloud):
    cloud.conductor.add("one")
    lines = cloud("server", "migrate", "one", "--dry-run").out.splitlines()
    assert lines[-2:] == ["1 of 1 placed on b", "dry run: nothing was changed"]


def test_a_dry_run_of_a_resize_without_a_host_says_why(cloud):
    cloud.conductor.add("web")
    cloud("server", "resize", "web", "--flavor", "huge", "--dry-run").assert_refused(SUMMARY, code=1)


# --- wrong input ---


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "web"), ("--flavor",)),
        (("create", "web", "--flavor", "smal"), ("there is no flavor smal", "did you mean small?")),
        (("create", "web", "--flavor", "small", "--count", "0"), ("--count", "0")),
        (("create", "web", "--flavor", "small", "--count", "many"), ("--count", "'many'")),
        (("create", "web", "--flavor", "small", "--hint", "colour"), ("'colour' is not KEY=VALUE",)),
        (("create", "web", "--flavor", "small", "--timeout", "0"), ("--timeout",)),
        (("create", "--flavor", "small"), ("NAME",)),
        (("create", "web", "--flavour", "small"), ("--flavor",)),
        (("list", "--hots", "a"), ("did you mean --host?",)),
        (("list", "--status", "lost"), ("--status", "LOST", "SHUTOFF")),
        (("list", "--status", "deleted"), ("--status", "DELETED", "SHUTOFF")),
        (("show", "web"), ("there is no server web",)),
        (("show", UNKNOWN), (f"there is no server {UNKNOWN}",)),
        (("show",), ("SERVER",)),
        (("show", "twin"), ("2 servers are named twin", "uuid")),
        *(((verb, "web"), ("there is no server web",)) for verb in VERBS),
        (("resize", "twin"), ("--flavor",)),
        (("migrate", "one", "--force"), ("--force goes with --live and --host",)),
        (("evacuate",), ("SERVER ..., or --from HOST",)),
        (("evacuate", "one", "--from", "a"), ("SERVER ..., or --from HOST",)),
        (("evacuate", "--from", "z"), ("there is no host z",)),
        (("evacuate", "one", "--force"), ("--force goes with --host",)),
        (("migrate", "one", "--host", "z"), ("there is no host z", "roost host list")),
        (("start", "one"), ("start is not possible while it is active/idle",)),
        (("delete",), ("SERVER",)),
        (("list", "-c", "colour"), ("-c colour",)),
        (("list", "-f", "xml"), ("xml",)),
        (("list", "--config-file", "none.conf"), ("none.conf",)),
    ],
)
def test_wrong_input_is_one_line(cloud, arguments, words):
    for name in ("one", "twin", "twin"):
        cloud.conductor.add(name)
    before = {uuid: dict(each) for uuid, each in cloud.conductor.servers.items()}
    cloud("server", *arguments).assert_refused(*words)
    assert cloud.conductor.servers == before
