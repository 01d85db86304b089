# SPDX-License-Identifier: Apache-2.0
"""Many rows in one statement: the same on all three databases, whatever the texts."""

import datetime

import pytest
from sqlalchemy import insert, select
from tests.store.rows import ODD

from roost.store.schema.fleet import compute_nodes, consumers, services
from roost.store.schema.fleet import inventories as inventories_table
from roost.store.statements import INTEGER_TYPE, TEXT_TYPE, addition_statement, column_in, insert_rows

INVENTORY = (("node_id", INTEGER_TYPE), ("resource_class", TEXT_TYPE))
NOW = datetime.datetime(2026, 11, 15, 23, 59, 59, 999999, tzinfo=datetime.UTC)


def test_odd_texts_nothing_and_moments_arrive_as_they_are(transaction):
    rows = [("one", ODD, None), ("two", "", "50% :given \\ 漢字")]
    names = ("uuid", "kind", "project_id", "created_at")
    insert_rows(transaction, consumers, names, [(uuid, kind[:32], project, NOW) for uuid, kind, project in rows])
    columns = consumers.c
    query = select(columns.uuid, columns.kind, columns.project_id, columns.created_at).order_by(columns.uuid)
    assert [tuple(row) for row in transaction.execute(query)] == [
        ("one", ODD[:32], None, NOW),
        ("two", "", "50% :given \\ 漢字", NOW),
    ]


def test_numbers_truths_and_moments_of_every_kind(transaction):
    texts = {"uuid": "u", "host": "h", "binary": "b"}
    values = texts | {"id": 2**53 + 1, "disabled": True, "forced_down": False, "last_seen_up": NOW}
    insert_rows(transaction, services, list(values), [list(values.values())])
    row = transaction.execute(select(services).where(services.c.uuid == "u")).mappings().one()
    assert {name: row[name] for name in values} == values


@pytest.fixture
def inventories(transaction):
    node = {"id": 7, "uuid": "n", "host": "h", "hypervisor_hostname": "h"}
    transaction.execute(insert(compute_nodes), node)
    rows = [{"node_id": 7, "resource_class": name, "total": 10, "used": 4} for name in ("A", "a", "ä")]
    transaction.execute(insert(inventories_table), rows)
    return transaction


def add_to_rows(connection, *wanted):
    """How many rows were found, and added to."""
    return connection.execute(*addition_statement(connection.dialect.name, *wanted)).rowcount


def used(connection):
    table = inventories_table.c
    return dict(connection.execute(select(table.resource_class, table.used)).all())


def test_each_row_gets_its_own_amount_and_capitals_make_a_difference(inventories):
    rows = [(7, "A", 2), (7, "ä", -4), (7, "nobody", 1), (8, "A", 1)]
    assert add_to_rows(inventories, "inventories", INVENTORY, {"used": "difference"}, rows) == 2
    assert used(inventories) == {"A": 6, "a": 4, "ä": 0}


def test_only_where_the_condition_holds(inventories):
    rows = [(7, "A", 6), (7, "a", 7)]
    condition = "used + given.difference <= total"
    assert add_to_rows(inventories, "inventories", INVENTORY, {"used": "difference"}, rows, condition) == 1
    assert used(inventories) == {"A": 10, "a": 4, "ä": 4}


def test_one_amount_may_go_to_several_columns_with_either_sign(inventories):
    sums = {"used": "-taken", "reserved": "taken", "total": "more"}
    assert add_to_rows(inventories, "inventories", INVENTORY, sums, [(7, "a", 3, 5)]) == 1
    row = inventories.execute(select(inventories_table).where(inventories_table.c.resource_class == "a")).one()
    assert (row.used, row.reserved, row.total) == (1, 3, 15)


@pytest.mark.parametrize("number", [1, 4, 5, 16, 17, 64, 65])
def test_what_postgresql_is_told_of_the_number_of_rows_leaves_none_out(inventories, number):
    names = [f"C{each}" for each in range(number)]
    rows = [{"node_id": 7, "resource_class": name, "total": 10} for name in names]
    inventories.execute(insert(inventories_table), rows)
    wanted = [(7, name, 3) for name in names]
    assert add_to_rows(inventories, "inventories", INVENTORY, {"used": "difference"}, wanted) == number


@pytest.mark.parametrize(("keys", "found"), [(["a", "ä", "x"], ["a", "ä"]), (["A"], ["A"]), ([], [])])
def test_one_of_several_values(inventories, keys, found):
    column = inventories_table.c.resource_class
    there = inventories.scalars(select(column).where(column_in(inventories, column, keys)))
    assert sorted(there) == sorted(found)
