# SPDX-License-Identifier: Apache-2.0
"""D21: `roost ledger audit` lists claims without a known server, with their age; --known names more."""

import json

import pytest
from tests.flow.cloud import UUID, request

from roost.claims.audit import audit, heal
from roost.cli.ledger import read_known
from roost.errors import BadInput
from roost.scheduler.repeats_and_moves import move_of

FIRST, SECOND = UUID % 1, UUID % 2


def leaks(cloud, grace=60, known=()):
    found = audit(cloud.engine, cloud.clock.now(), grace, known)
    return {each.subject: each.age_seconds for each in found if each.kind in ("leak", "migration")}


def test_d21_a_claim_whose_caller_timed_out_is_listed_with_its_age(make_cloud):
    cloud = make_cloud({"a": {}, "b": {}})
    loop = cloud.manager().claims
    loop.select(request(), [FIRST])  # the answer was lost with the broker
    cloud.clock.seconds += 500
    loop.select(request(), [SECOND])
    assert leaks(cloud) == {FIRST: 500}


def test_d21_what_is_known_elsewhere_is_no_leak_and_not_released(make_cloud, tmp_path):
    cloud = make_cloud({"a": {}, "b": {"total_usable_ram_mb": 30000}})
    loop = cloud.manager().claims
    loop.select(request(), [FIRST])
    loop.select(request(ignore_hosts=("a",)), [FIRST])
    loop.select(request(), [SECOND])
    cloud.clock.seconds += 500
    assert leaks(cloud).keys() == {FIRST, SECOND, move_of(FIRST)}
    listed = tmp_path / "instances"
    listed.write_text(f"{FIRST.upper()}\n")
    known = read_known(str(listed))
    assert leaks(cloud, known=known).keys() == {SECOND}
    heal(cloud.engine, audit(cloud.engine, cloud.clock.now(), 60, known), cloud.ledger)
    assert cloud.held(FIRST, SECOND, move_of(FIRST)).keys() == {FIRST, move_of(FIRST)}


@pytest.mark.parametrize("text", [f"{FIRST}\n{SECOND}\n", json.dumps([FIRST, SECOND]), f"\ufeff{FIRST} {SECOND}"])
def test_d21_uuids_are_read_line_by_line_or_as_json(tmp_path, text):
    listed = tmp_path / "instances"
    listed.write_text(text, encoding="utf-8")
    assert {FIRST, SECOND} <= read_known(str(listed))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("web-1\n", "entry 1.*'web-1'.*is no uuid"),
        ("[1", "--known"),
        (f"{FIRST}\nnull", "entry 2"),
        ("[{}]", "entry 1"),
    ],
)
def test_d21_anything_else_is_refused_in_a_line(tmp_path, text, problem):
    listed = tmp_path / "instances"
    listed.write_text(text)
    with pytest.raises(BadInput, match=problem) as raised:
        read_known(str(listed))
    assert "\n" not in str(raised.value)


def test_d21_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match="--known"):
        read_known(str(tmp_path / "nothing"))
