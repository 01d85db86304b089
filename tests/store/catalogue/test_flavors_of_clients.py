# SPDX-License-Identifier: Apache-2.0
"""Flavors as clients create, change, list and delete them."""

import pytest
from tests.store.fleets import LATER, NOW, bring, document, one
from tests.store.statements import counted_statements, run_together

from roost.errors import BadInput, Conflict, UnknownName
from roost.records.catalogue import read_flavors
from roost.records.flavor_catalogue import (
    FlavorFilters,
    NewFlavor,
    create_flavor,
    delete_extra_spec,
    delete_flavor,
    get_flavor,
    list_flavors,
    merge_extra_specs,
    update_flavor_description,
)
from roost.store.pages import Page, SortBy
from roost.store.schema.servers import flavors

SMALL = NewFlavor("small", vcpus=1, memory_mb=512, flavorid="1")


def names(found):
    return [each.name for each in found]


def create_three(store):
    for number, name in enumerate(("c", "a", "b")):
        create_flavor(store, NewFlavor(name, 1, 512 << number, flavorid=str(number), is_public=number != 2), NOW)


def test_a_flavor_is_what_it_was_created_with(store):
    wanted = NewFlavor("big", 8, 4096, 20, 10, 512, "b-1", False, 2.5, "the big one")
    made = create_flavor(store, wanted, NOW)
    assert made[1:] == ("b-1", "big", 8, 4096, 20, 10, 512, False, False, "the big one", 2.5, {})
    assert get_flavor(store, "b-1") == made
    assert read_flavors(store)[0].memory_mb == 4096


def test_without_an_id_it_gets_a_new_uuid(store):
    made = [create_flavor(store, NewFlavor(name, 1, 512), NOW) for name in "ab"]
    assert len({each.flavorid for each in made}) == 2
    assert {len(each.flavorid) for each in made} == {36}


def test_name_and_id_are_unique(store):
    create_flavor(store, SMALL, NOW)
    with pytest.raises(Conflict, match="Flavor with name small already exists"):
        create_flavor(store, NewFlavor("small", 1, 512), NOW)
    with pytest.raises(Conflict, match="Flavor with ID 1 already exists"):
        create_flavor(store, NewFlavor("other", 1, 512, flavorid="1"), NOW)
    assert names(list_flavors(store)) == ["small"]


def test_of_two_writers_at_once_one_creates_it(store):
    done = run_together(*[lambda: create_flavor(store, SMALL, NOW)] * 4)
    assert sorted(type(each).__name__ for each in done) == ["Conflict"] * 3 + ["FlavorRecord"]


def test_a_value_that_does_not_fit_its_column(store):
    with pytest.raises(BadInput, match="256 characters long"):
        create_flavor(store, NewFlavor("n" * 256, 1, 512), NOW)
    assert list_flavors(store) == []


def test_the_description_is_all_that_can_be_changed(store):
    made = create_flavor(store, SMALL, NOW)
    assert update_flavor_description(store, "1", "tiny", LATER) == made._replace(description="tiny")
    assert one(store, flavors, flavorid="1").updated_at == LATER
    assert update_flavor_description(store, "1", None, LATER).description is None


def test_extra_specs_are_merged_and_deleted_one_by_one(store):
    create_flavor(store, SMALL, NOW)
    merge_extra_specs(store, "1", {"hw:cpu_policy": "dedicated", "a": "1"})
    merge_extra_specs(store, "1", {"a": "2", "b": "3"})
    delete_extra_spec(store, "1", "b")
    assert get_flavor(store, "1").extra_specs == {"a": "2", "hw:cpu_policy": "dedicated"}
    with pytest.raises(UnknownName, match="Flavor 1 has no extra specs with key b"):
        delete_extra_spec(store, "1", "b")


def test_writers_at_once_lose_no_extra_spec(store):
    create_flavor(store, SMALL, NOW)
    run_together(*[lambda key=key: merge_extra_specs(store, "1", {key: key, "all": key}) for key in "abcd"])
    found = get_flavor(store, "1").extra_specs
    assert found.keys() == {"a", "b", "c", "d", "all"}


def test_a_deleted_flavor_is_gone_with_its_extra_specs(store):
    create_flavor(store, SMALL, NOW)
    merge_extra_specs(store, "1", {"a": "1"})
    delete_flavor(store, "1")
    assert list_flavors(store) == []
    create_flavor(store, SMALL, NOW)
    assert get_flavor(store, "1").extra_specs == {}


def test_a_flavor_that_is_not_there(store):
    for use, values in (
        (get_flavor, ()),
        (delete_flavor, ()),
        (update_flavor_description, ("d", NOW)),
        (merge_extra_specs, ({"a": "1"},)),
        (delete_extra_spec, ("a",)),
    ):
        with pytest.raises(UnknownName, match="Flavor 1 could not be found"):
            use(store, "1", *values)


def test_filters(store):
    create_three(store)
    expected = {
        FlavorFilters(): "cab",
        FlavorFilters(is_public=True): "ca",
        FlavorFilters(is_public=False): "b",
        FlavorFilters(least_memory_mb=1024): "ab",
        FlavorFilters(least_root_gb=1): "",
        FlavorFilters(name="a"): "a",
    }
    assert {each: "".join(names(list_flavors(store, each))) for each in expected} == expected


def test_pages(store):
    create_three(store)
    expected = {
        Page(limit=2): "ca",
        Page(limit=2, marker="1"): "b",
        Page(sort=(SortBy("name"),)): "abc",
        Page(sort=(SortBy("vcpus", True),)): "bac",
        Page(sort=(SortBy("name", True),), marker="2"): "a",
        Page(sort=(SortBy("vcpus"),), marker="0", limit=1): "a",
    }
    assert {each: "".join(names(list_flavors(store, page=each))) for each in expected} == expected


def test_pages_that_are_not_there(store):
    with pytest.raises(BadInput, match=r"marker \[77\] not found"):
        list_flavors(store, page=Page(marker="77"))
    with pytest.raises(BadInput, match="did you mean name"):
        list_flavors(store, page=Page(sort=(SortBy("nam"),)))


def test_the_number_of_statements_does_not_grow_with_the_flavors(store):
    bring(store, document())
    few = counted_statements(store, lambda: list_flavors(store))
    for number in range(20):
        merge_extra_specs(store, create_flavor(store, NewFlavor(f"f{number}", 1, 512), NOW).flavorid, {"a": "b"})
    assert counted_statements(store, lambda: list_flavors(store)) == few == 2
    assert {**list_flavors(store, FlavorFilters(name="small"))[0].extra_specs} == {"a:b": "1"}
