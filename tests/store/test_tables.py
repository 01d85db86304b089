# SPDX-License-Identifier: Apache-2.0
"""The tables: what goes in comes out, on every database; and the rules that the database guards."""

import datetime

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import func, inspect, select
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError
from tests.store.rows import MOMENT, bare_row, contents, fill, insert_parents, odd_row

from roost.store.schema import metadata
from roost.store.schema.fleet import (
    aggregates,
    allocations,
    compute_nodes,
    consumers,
    inventories,
    node_traits,
    services,
)
from roost.store.schema.history import changes
from roost.store.schema.servers import server_group_hosts, server_group_members, server_group_slots, server_groups
from roost.store.schema_upgrade import VERSION_TABLE

TABLES = metadata.sorted_tables
NODE, OTHER_NODE = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


def test_revisions_and_schema_say_the_same(current, kind):
    # MariaDB writes the default of a truth as a number, which alembic holds to be a change.
    options = {"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": kind != "mariadb"}
    with current.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []


def test_every_rule_of_the_schema_has_its_name_in_the_database(current):
    found = inspect(current)
    for table in TABLES:
        names = {each["name"] for each in found.get_check_constraints(table.name)}
        wanted = {
            f"ck_{table.name}_{each.name}" for each in table.constraints if each.__visit_name__ == "check_constraint"
        }
        assert wanted <= names


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_odd_values_come_back_as_they_were_written(transaction, table):
    insert_parents(transaction, table, odd_row)
    transaction.execute(table.insert().values(odd_row(table)))
    assert [dict(row) for row in transaction.execute(table.select()).mappings()] == [odd_row(table)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_may_be_left_out_is_null_or_its_default(transaction, table):
    insert_parents(transaction, table, bare_row)
    transaction.execute(table.insert().values(bare_row(table)))
    (row,) = [dict(row) for row in transaction.execute(table.select()).mappings()]
    assert bare_row(table).items() <= row.items()
    for column in table.columns:
        is_empty = column.name not in bare_row(table) and column.server_default is None
        assert (row[column.name] is None) == is_empty


def test_every_table_at_once(transaction):
    fill(transaction)
    assert all(len(rows) == 1 for rows in contents(transaction).values())


@pytest.mark.parametrize("number", [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1])
def test_numbers_have_64_bits(transaction, number):
    row = {**bare_row(compute_nodes), "disk_available_least": number}
    transaction.execute(compute_nodes.insert().values(row))
    assert transaction.scalar(select(compute_nodes.c.disk_available_least)) == number


def test_a_moment_of_another_zone_comes_back_in_utc(transaction):
    there = MOMENT.astimezone(datetime.timezone(datetime.timedelta(hours=-7)))
    transaction.execute(services.insert().values({**bare_row(services), "last_seen_up": there}))
    found = transaction.scalar(select(services.c.last_seen_up))
    assert (found, found.tzinfo) == (MOMENT, datetime.UTC)


def test_a_time_without_a_zone_is_refused(transaction):
    row = {**bare_row(services), "last_seen_up": datetime.datetime(2026, 1, 1)}
    with pytest.raises(StatementError, match="has no time zone"):
        transaction.execute(services.insert().values(row))


def test_a_number_that_is_none_is_no_json(transaction):
    row = {**bare_row(compute_nodes), "stats": {"load": float("nan")}}
    with pytest.raises(StatementError, match="not JSON compliant"):
        transaction.execute(compute_nodes.insert().values(row))


def test_a_name_that_is_too_long_is_refused_and_not_cut(transaction, kind):
    if kind == "sqlite":
        return  # has no lengths: it keeps the name whole, which is as good
    with pytest.raises(DBAPIError):
        transaction.execute(aggregates.insert().values(uuid=NODE, name="x" * 256))


# --- what is unique ----------------------------------------------------------------------------------


def add_node(connection, number, **values):
    row = {
        **bare_row(compute_nodes),
        "id": number,
        "uuid": f"node-{number}",
        "host": f"host-{number}",
        **values,
    }
    connection.execute(compute_nodes.insert().values(row))


def add_group(connection, number):
    values = {"id": number, "uuid": f"group-{number}", "name": "web", "policy": "anti-affinity"}
    connection.execute(server_groups.insert().values(values))


def add_consumer(connection, uuid):
    connection.execute(consumers.insert().values(uuid=uuid))


def take_slot(connection, group, host, slot, consumer):
    add_consumer(connection, consumer)
    values = {"group_id": group, "host": host, "slot": slot, "consumer_uuid": consumer}
    connection.execute(server_group_slots.insert().values(values))


@pytest.fixture
def groups(transaction):
    add_group(transaction, 1)
    add_group(transaction, 2)
    return transaction


def test_a_slot_of_a_group_on_a_host_is_given_out_once(groups):
    take_slot(groups, 1, "h1", 0, "a")
    with pytest.raises(IntegrityError):
        take_slot(groups, 1, "h1", 0, "b")


@pytest.mark.parametrize(
    ("group", "host", "slot"), [(1, "h1", 1), (1, "h2", 0), (2, "h1", 0), (1, "H1", 0), (1, "h1 ", 0)]
)
def test_another_slot_another_host_and_another_group_are_free(groups, group, host, slot):
    take_slot(groups, 1, "h1", 0, "a")
    take_slot(groups, group, host, slot, "b")


def test_a_slot_below_zero_is_no_slot(groups):
    with pytest.raises(DBAPIError):
        take_slot(groups, 1, "h1", -1, "a")


def test_a_slot_is_free_again_when_its_consumer_is_gone(groups):
    take_slot(groups, 1, "h1", 0, "a")
    groups.execute(consumers.delete())
    take_slot(groups, 1, "h1", 0, "b")


def test_a_group_with_affinity_has_one_host(groups):
    insert = server_group_hosts.insert()
    groups.execute(insert.values(group_id=1, host="h1"))
    groups.execute(insert.values(group_id=2, host="h1"))
    with pytest.raises(IntegrityError):
        groups.execute(insert.values(group_id=1, host="h2"))


def test_a_server_is_a_member_of_a_group_once(groups):
    insert = server_group_members.insert()
    groups.execute(insert.values(group_id=1, server_uuid=NODE))
    with pytest.raises(IntegrityError):
        groups.execute(insert.values(group_id=1, server_uuid=NODE))


def test_a_consumer_holds_a_class_of_a_node_once(transaction):
    add_node(transaction, 1)
    add_consumer(transaction, "a")
    insert = allocations.insert()
    transaction.execute(insert.values(consumer_uuid="a", node_id=1, resource_class="VCPU", used=2))
    transaction.execute(insert.values(consumer_uuid="a", node_id=1, resource_class="MEMORY_MB", used=2))
    with pytest.raises(IntegrityError):
        transaction.execute(insert.values(consumer_uuid="a", node_id=1, resource_class="VCPU", used=2))


@pytest.mark.parametrize("used", [0, -1])
def test_an_allocation_of_nothing_is_none(transaction, used):
    add_node(transaction, 1)
    add_consumer(transaction, "a")
    with pytest.raises(DBAPIError):
        transaction.execute(
            allocations.insert().values(consumer_uuid="a", node_id=1, resource_class="VCPU", used=used)
        )


def test_more_cannot_be_given_back_than_was_taken(transaction):
    add_node(transaction, 1)
    transaction.execute(inventories.insert().values(node_id=1, resource_class="VCPU", total=8, used=2))
    with pytest.raises(DBAPIError):
        transaction.execute(inventories.update().values(used=inventories.c.used - 3))


def test_a_node_that_holds_something_cannot_be_deleted(transaction):
    add_node(transaction, 1)
    add_consumer(transaction, "a")
    transaction.execute(allocations.insert().values(consumer_uuid="a", node_id=1, resource_class="VCPU", used=2))
    with pytest.raises(IntegrityError):
        transaction.execute(compute_nodes.delete())


def test_inventories_and_traits_go_with_their_node(transaction):
    add_node(transaction, 1)
    transaction.execute(inventories.insert().values(node_id=1, resource_class="VCPU", total=8))
    transaction.execute(node_traits.insert().values(node_id=1, trait="CUSTOM_FAST"))
    transaction.execute(compute_nodes.delete())
    for table in (inventories, node_traits):
        assert transaction.scalar(select(func.count()).select_from(table)) == 0


def test_host_and_node_name_a_compute_node_once_by_the_letter(transaction):
    add_node(transaction, 1, host="h1", hypervisor_hostname="n1")
    add_node(transaction, 2, host="h1", hypervisor_hostname="n2")
    add_node(transaction, 3, host="H1", hypervisor_hostname="n1")
    add_node(transaction, 4, host="h1", hypervisor_hostname="n1 ")
    with pytest.raises(IntegrityError):
        add_node(transaction, 5, host="h1", hypervisor_hostname="n1")


# --- change numbers ----------------------------------------------------------------------------------


def note_change(connection):
    insert = changes.insert().values(subject="compute_nodes", subject_key="1", token=1)
    return connection.execute(insert).inserted_primary_key[0]


def test_change_numbers_count_up_and_are_never_used_twice(current):
    with current.begin() as connection:
        first = note_change(connection)
    with current.begin() as connection:
        connection.execute(changes.delete())
    with current.begin() as connection:
        second = note_change(connection)
        connection.execute(changes.delete())
    assert second > first


def test_a_lower_number_may_become_visible_later(current, kind):
    """The trap that the low-water mark is for: docs/adr/0007."""
    if kind == "sqlite":
        return  # one writer at a time: there, numbers become visible in order
    with current.connect() as slow, current.connect() as quick:
        lower, higher = note_change(slow), note_change(quick)
        quick.commit()
        seen = list(quick.scalars(select(changes.c.number)))
        slow.commit()
        quick.rollback()
        assert (lower < higher, seen) == (True, [higher])
        assert list(quick.scalars(select(changes.c.number).order_by("number"))) == [lower, higher]
        quick.execute(changes.delete())
        quick.commit()
