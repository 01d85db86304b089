# SPDX-License-Identifier: Apache-2.0
"""Server groups as clients create, list and delete them."""

import pytest
from sqlalchemy import insert, update
from tests.store.fleets import HOST, NOW, UUID, bring, read, write
from tests.store.statements import counted_statements

from roost.errors import BadInput, UnknownName
from roost.records.catalogue import read_group
from roost.records.group_catalogue import (
    NewGroup,
    count_groups,
    create_group,
    delete_group,
    get_group,
    list_groups,
    read_groups_of_server,
)
from roost.store.schema.servers import server_group_members, servers


def create(store, name, project_id="p", **more):
    return create_group(store, NewGroup(name, "affinity", project_id=project_id, **more), NOW)


def names(found):
    return [each.name for each in found]


def add_members(store, group, *uuids):
    rows = [{"group_id": group.id, "server_uuid": uuid} for uuid in uuids]
    write(store, insert(server_group_members).values(rows))


def test_a_group_is_what_it_was_created_with(store):
    made = create_group(store, NewGroup("apart", "anti-affinity", {"max_server_per_host": "3"}, "p", "u"), NOW)
    assert made[2:] == ("apart", "anti-affinity", {"max_server_per_host": 3}, (), "p", "u", NOW)
    assert get_group(store, made.uuid.upper()) == made


def test_a_scheduler_reads_it(store):
    made = create(store, "together")
    found = read_group(store, made.uuid)
    assert (found.policy, found.uuid, found.members) == ("affinity", made.uuid, ())


def test_a_name_that_does_not_fit_its_column(store):
    with pytest.raises(BadInput, match="256 characters long"):
        create(store, "n" * 256)


def test_members_are_servers_that_are_not_deleted(store):
    bring(store, {"hosts": [{"host": "a", **HOST, "instances": [UUID % 2, UUID % 1, UUID % 3]}]})
    made = create(store, "together")
    add_members(store, made, *(UUID % number for number in (1, 2, 3, 4)))
    write(store, update(servers).where(servers.c.uuid == UUID % 3).values(vm_state="deleted"))
    assert get_group(store, made.uuid).members == (UUID % 1, UUID % 2)


def test_a_project_sees_its_own_groups_and_those_of_no_project(store):
    for name, project_id in (("own", "p"), ("foreign", "q"), ("of all", None)):
        create(store, name, project_id)
    own, foreign, of_all = list_groups(store)
    assert list_groups(store, "p") == [own, of_all]
    assert get_group(store, own.uuid, "p") == own
    assert count_groups(store, "p") == 1
    for use in (get_group, delete_group):
        with pytest.raises(UnknownName, match=f"Instance group {foreign.uuid} could not be found"):
            use(store, foreign.uuid, "p")
    assert get_group(store, foreign.uuid) == foreign


def test_a_project_sees_no_servers_of_others_in_a_group_of_no_project(store):
    instances = [{"uuid": UUID % 1, "project_id": "p"}, {"uuid": UUID % 2, "project_id": "q"}]
    bring(store, {"hosts": [{"host": "a", **HOST, "instances": instances}]})
    made = create(store, "of all", None)
    add_members(store, made, UUID % 1, UUID % 2)
    assert get_group(store, made.uuid, "p").members == (UUID % 1,)
    assert get_group(store, made.uuid).members == (UUID % 1, UUID % 2)


def test_pages(store):
    for name in "cab":
        create(store, name)
    assert names(list_groups(store, "p", offset=1)) == ["a", "b"]
    assert names(list_groups(store, "p", offset=1, limit=1)) == ["a"]
    assert names(list_groups(store, limit=2)) == ["c", "a"]


def test_a_deleted_group_is_gone_and_its_members_are_not(store):
    bring(store, {"hosts": [{"host": "a", **HOST, "instances": [UUID % 1]}]})
    made = create(store, "together")
    add_members(store, made, UUID % 1)
    delete_group(store, made.uuid, "p")
    assert list_groups(store) == []
    assert read(store, server_group_members) == []
    assert read(store, servers, servers.c.uuid) == [(UUID % 1,)]
    with pytest.raises(UnknownName):
        delete_group(store, made.uuid)


def test_the_number_of_statements_does_not_grow_with_the_groups(store):
    create(store, "first")
    few = counted_statements(store, lambda: list_groups(store))
    for number in range(5):
        add_members(store, create(store, f"g{number}"), UUID % number)
    assert counted_statements(store, lambda: list_groups(store)) == few == 2


def test_a_server_knows_its_groups(store):
    one, two = create(store, "one"), create(store, "two")
    add_members(store, one, UUID % 1, UUID % 2)
    add_members(store, two, UUID % 2)
    assert read_groups_of_server(store, UUID % 1) == [one.uuid]
    assert read_groups_of_server(store, UUID % 2) == [one.uuid, two.uuid]
    assert read_groups_of_server(store, UUID % 3) == []
