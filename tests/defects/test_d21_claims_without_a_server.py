# SPDX-License-Identifier: Apache-2.0
"""D21: claims of callers that never came back are found, with their age, by a command."""

import datetime
import io
import json
import threading

import pytest
from sqlalchemy import insert
from tests.flow.cloud import CONTEXT, UUID, request
from tests.store.test_audit import add_server
from tests.store.test_ledger import add_node, claim, new_uuid

from roost.errors import RpcTimeout
from roost.ledger.audit import audit, heal
from roost.ledger.ledger import Ledger
from roost.messages.in_process import InProcessTransport
from roost.model.resources import move_of
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema.servers import migrations

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
INSTANCE = UUID % 1


def found(engine, known=(), after=3700, grace=3600):
    return audit(engine, NOW + datetime.timedelta(seconds=after), grace, frozenset(known))


# --- callers that time out ---


def test_d21_a_caller_that_timed_out_between_claim_and_answer_leaves_a_claim_that_is_listed(make_cloud):
    cloud = make_cloud({"a": {}})
    cloud.transport = InProcessTransport()
    service = cloud.service()
    has_claimed, may_answer, usual = threading.Event(), threading.Event(), service.manager.claims.granter.claim

    def claim_and_hang(claims):
        usual(claims)
        has_claimed.set()
        may_answer.wait(30)

    service.manager.claims.granter.claim = claim_and_hang
    try:
        with pytest.raises(RpcTimeout):
            cloud.client(long_rpc_timeout=1, rpc_response_timeout=1).select_destinations(
                CONTEXT, request(project_id="blue"), [INSTANCE]
            )
        assert has_claimed.wait(30)
    finally:
        may_answer.set()
    claimed_at = cloud.clock.now()
    (leak,) = audit(cloud.engine, claimed_at + datetime.timedelta(hours=2), 3600)
    assert (leak.kind, leak.subject, leak.host, leak.project_id) == ("leak", INSTANCE, "a", "blue")
    assert leak.created_at == claimed_at
    assert audit(cloud.engine, claimed_at + datetime.timedelta(hours=2), 3600, {INSTANCE}) == []


# --- what is found, on all databases ---


def test_d21_a_claim_without_a_server_is_listed_with_host_project_and_time(current, book):
    one, other = claim(add_node(current)), claim(add_node(current))
    book.claim([one, other])
    first = next(each for each in found(current) if each.subject == one.consumer_uuid)
    assert (first.kind, first.project_id, first.created_at) == ("leak", "proj", NOW)
    assert first.host
    assert {each.subject for each in found(current)} == {one.consumer_uuid, other.consumer_uuid}


def test_d21_what_is_known_elsewhere_is_neither_listed_nor_released(current, book):
    one, other = claim(add_node(current)), claim(add_node(current))
    book.claim([one, other])
    findings = found(current, known={one.consumer_uuid})
    assert [each.subject for each in findings] == [other.consumer_uuid]
    assert heal(current, findings, book) == 1
    assert list(book.read_allocations([one.consumer_uuid, other.consumer_uuid])) == [one.consumer_uuid]


def moving(engine, ledger, migration=None):
    """An instance on its way from one node to another: its claim, and the uuid of its migration."""
    source, target = claim(add_node(engine)), add_node(engine)
    ledger.claim([source])
    move = migration or move_of(source.consumer_uuid)
    ledger.start_move(move, claim(target, consumer=source.consumer_uuid))
    return source.consumer_uuid, move


def test_d21_a_migration_whose_instance_is_gone_is_found_though_its_record_says_that_it_runs(current, book):
    instance, move = moving(current, book, new_uuid())
    row = {"uuid": move, "server_uuid": instance, "migration_type": "resize", "status": "migrating"}
    with current.begin() as connection:
        connection.execute(insert(migrations), row)
    assert [each.kind for each in found(current)] == ["leak"]
    book.release([instance])
    (gone,) = found(current)
    assert (gone.kind, gone.subject, gone.remedy) == ("migration", move, "release them")
    assert gone.detail == "holds resources, and its instance is gone"
    assert heal(current, [gone], book) == 1


def test_d21_a_migration_of_the_scheduler_names_its_instance(current, book):
    instance, move = moving(current, book)
    add_server(current, instance, next(iter(book.read_allocations([instance])[instance])))
    (finding,) = found(current)
    assert (finding.kind, finding.subject) == ("migration", move)
    assert finding.detail.endswith(f"no such migration is running; its instance is {instance}")


def test_d21_the_source_of_an_instance_that_is_known_elsewhere_is_not_released(current, book):
    instance, move = moving(current, book)
    (finding,) = found(current, known={instance})
    assert (finding.kind, finding.subject, finding.remedy) == ("migration", move, "")
    assert heal(current, [finding], book) == 0
    assert found(current, known={instance, move}) == []


# --- the command ---


@pytest.fixture
def leaks(roost, tmp_path, monkeypatch):
    """`roost ledger audit` on a database in which two instances hold something and have no server."""
    monkeypatch.chdir(tmp_path)
    address = "sqlite:///roost.db"
    assert roost("db", "upgrade", "--connection", address).code == 0
    engine = open_engine(DatabaseOptions(connection=address))
    old = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=5)
    Ledger(engine, now=lambda: old).claim([claim(add_node(engine), consumer=each) for each in (INSTANCE, UUID % 2)])
    engine.dispose()
    return lambda *arguments: roost("ledger", "audit", "--connection", address, *arguments)


def test_d21_the_table_has_age_and_project(leaks):
    done = leaks()
    assert done.code == 1
    for word in ("Age", "5 h", "Project", "proj", INSTANCE):
        assert word in done.out


def test_d21_programs_get_the_age_in_seconds_and_the_time(leaks):
    first = leaks("-f", "json").record["findings"][0]
    assert 5 * 3600 <= first["age_seconds"] < 5 * 3600 + 600
    assert datetime.datetime.fromisoformat(first["created_at"]).tzinfo is not None
    assert (first["project_id"], first["kind"]) == ("proj", "leak")


@pytest.mark.parametrize(
    "text",
    [
        f"{INSTANCE}\n",
        f"\n  {INSTANCE.upper()}  \r\n\n",
        json.dumps([INSTANCE]),
        json.dumps([INSTANCE.replace("-", "")], indent=2),
        "\ufeff" + INSTANCE,
        "{" + INSTANCE + "}",
    ],
    ids=["lines", "another spelling", "json", "json without dashes", "byte order mark", "braces"],
)
def test_d21_uuids_in_a_file_are_known(leaks, tmp_path, text):
    (tmp_path / "known").write_text(text, encoding="utf-8")
    done = leaks("--known", "known", "-f", "json")
    assert [each["subject"] for each in done.record["findings"]] == [UUID % 2]


def test_d21_uuids_may_come_from_standard_input_and_fix_leaves_them_alone(leaks, monkeypatch):
    def given():
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{INSTANCE}\n".encode())))

    given()
    assert leaks("--known", "-", "--fix", "--yes").code == 0
    given()
    assert leaks("--known", "-").code == 0
    assert [each["subject"] for each in leaks("-f", "json").record["findings"]] == [INSTANCE]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "known: there is no uuid in it"),
        (b"\n\n", "known: there is no uuid in it"),
        (b"[]", "known: there is no uuid in it"),
        (f"{INSTANCE}\nvm-1\n".encode(), "known, line 2: 'vm-1' is no uuid"),
        (b'["x"]', "known, entry 1: 'x' is no uuid"),
        (b"[1]", "known, entry 1: 1 is no uuid"),
        (b'["', "known: is no JSON: "),
        (b'{"a": 1}', "known: {'a': 1} is no list"),
        (b"\xff\xfe\x00", "known: is no text in UTF-8"),
        (None, "known: cannot be read: No such file or directory"),
    ],
)
def test_d21_wrong_input_is_one_line_and_exit_code_2(leaks, tmp_path, content, problem):
    if content is not None:
        (tmp_path / "known").write_bytes(content)
    done = leaks("--known", "known", "--fix", "--yes")
    assert done.code == 2
    assert problem in done.err
    assert done.err.count("\n") == 1
    assert len(leaks("-f", "json").record["findings"]) == 2
