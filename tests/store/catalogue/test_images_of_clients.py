# SPDX-License-Identifier: Apache-2.0
"""Images as clients create, change, list and delete them."""

import pytest
from tests.store.fleets import LATER, NOW, bring, document, wipe
from tests.store.statements import counted_statements, run_together

from roost.errors import BadInput, Conflict, FieldError, UnknownName
from roost.records import image_catalogue
from roost.records.catalogue import read_images
from roost.records.fleet_export import export_fleet
from roost.records.image_catalogue import (
    ImageFilters,
    NewImage,
    Range,
    create_image,
    delete_image,
    get_image,
    list_images,
    update_image,
)
from roost.store.pages import Page, SortBy

PROPERTIES = {"os_distro": "debian", "hw_numa_nodes": "2", "my_own": "thing"}


def ids(found):
    return [each.id for each in found]


def create_three(store):
    create_image(store, NewImage("x", id="1"), NOW)
    create_image(store, NewImage("x", id="2", visibility="private", owner="p"), NOW)
    create_image(store, NewImage("y", id="3", visibility="private", owner="q", status="queued"), NOW)


def test_an_image_is_what_it_was_created_with(store):
    made = create_image(store, NewImage("debian", PROPERTIES, "i", 512, 3, "private", "p", "raw", "bare", 9), NOW)
    assert made[:11] == ("i", "debian", PROPERTIES, 512, 3, "private", "p", "raw", "bare", 9, "active")
    assert (made.created_at, made.updated_at) == (NOW, None)
    assert get_image(store, "i") == made


def test_filters_get_its_properties_converted(store):
    create_image(store, NewImage("debian", PROPERTIES), NOW)
    (image,) = read_images(store)
    assert image.properties.to_dict() == {"os_distro": "debian", "hw_numa_nodes": 2}


def test_an_exported_fleet_can_be_imported_with_them(store):
    create_image(store, NewImage("debian", PROPERTIES, "i"), NOW)
    exported = export_fleet(store, NOW)
    wipe(store)
    bring(store, exported)
    assert read_images(store)[0].properties.os_distro == "debian"


def test_an_id_is_unique_and_a_name_is_not(store):
    create_three(store)
    with pytest.raises(Conflict, match="Image ID 1 already exists!"):
        create_image(store, NewImage("z", id="1"), NOW)


def test_without_an_id_it_gets_a_new_uuid(store):
    assert create_image(store, NewImage(), NOW).id != create_image(store, NewImage(), NOW).id


def test_a_value_that_does_not_fit_its_column(store):
    with pytest.raises(BadInput, match="256 characters long"):
        create_image(store, NewImage("n" * 256), NOW)
    assert list_images(store) == []


def test_an_update_changes_what_it_names(store):
    made = create_image(store, NewImage("debian", PROPERTIES, "i", 512), NOW)
    changed = update_image(store, "i", LATER, {"name": "bookworm"}, {"my_own": None, "os_version": "12"})
    expected = {"os_distro": "debian", "hw_numa_nodes": "2", "os_version": "12"}
    assert changed == made._replace(name="bookworm", properties=expected, updated_at=LATER)


def test_a_refused_update_changes_nothing(store):
    made = create_image(store, NewImage("debian", PROPERTIES, "i"), NOW)
    with pytest.raises(FieldError, match="hw_numa_nodes"):
        update_image(store, "i", LATER, {"name": "other"}, {"hw_numa_nodes": "many"})
    assert get_image(store, "i") == made


def test_writers_at_once_lose_no_property(store):
    create_image(store, NewImage(id="i"), NOW)
    run_together(*[lambda key=key: update_image(store, "i", LATER, None, {key: key}) for key in "abcd"])
    assert get_image(store, "i").properties == {key: key for key in "abcd"}


def test_an_image_that_is_not_there(store):
    create_image(store, NewImage(id="i"), NOW)
    delete_image(store, "i")
    for use, values in ((get_image, ()), (delete_image, ()), (update_image, (NOW,))):
        with pytest.raises(UnknownName, match="No image found with ID i"):
            use(store, "i", *values)


def test_filters(store):
    create_three(store)
    expected = (
        (ImageFilters(), "123"),
        (ImageFilters({"name": ["x"]}), "12"),
        (ImageFilters({"id": ["3", "1", "77"]}), "13"),
        (ImageFilters({"id": []}), ""),
        (ImageFilters({"visibility": ["private"], "owner": ["q"]}), "3"),
        (ImageFilters({"status": ["queued"]}), "3"),
        (ImageFilters(project_id="p"), "12"),
        (ImageFilters(ranges={"created_at": Range(least=NOW)}), "123"),
        (ImageFilters(ranges={"updated_at": Range(least=NOW, below=LATER)}), "123"),
        (ImageFilters(ranges={"updated_at": Range(least=NOW, below=LATER, is_excluded=True)}), ""),
        (ImageFilters(ranges={"size": Range(least=0)}), ""),
        (ImageFilters(properties={"colour": "red"}), ""),
    )
    for wanted, found in expected:
        assert "".join(ids(list_images(store, wanted))) == found, wanted


def test_images_are_found_by_a_property_as_it_is_shown(store, monkeypatch):
    """D30: page by page, also beyond what is read from the database at once."""
    monkeypatch.setattr(image_catalogue, "ROWS_AT_ONCE", 4)
    for number in range(20):
        create_image(store, NewImage(id=f"{number:02}", properties={"cores": number % 3}), NOW)
    wanted, found = ImageFilters(properties={"cores": "1"}), []
    while page := list_images(store, wanted, Page(limit=2, marker=found[-1] if found else None)):
        found += ids(page)
    assert found == ["01", "04", "07", "10", "13", "16", "19"]


def test_which_images_of_another_project_are_seen(store):
    for visibility in ("public", "community", "shared", "private"):
        create_image(store, NewImage(id=visibility, visibility=visibility, owner="q"), NOW)
    assert ids(list_images(store, ImageFilters(project_id="p"))) == ["public"]
    assert [get_image(store, each, project_id="p").id for each in ("public", "community")] == ["public", "community"]
    for visibility in ("shared", "private"):
        with pytest.raises(UnknownName):
            get_image(store, visibility, project_id="p")
        assert get_image(store, visibility, project_id="q").owner == "q"


def test_pages(store):
    create_three(store)
    assert ids(list_images(store, page=Page(limit=1, marker="1"))) == ["2"]
    assert ids(list_images(store, page=Page(sort=(SortBy("name", True),)))) == ["3", "2", "1"]


def test_the_number_of_statements_does_not_grow_with_the_images(store):
    bring(store, document())
    few = counted_statements(store, lambda: list_images(store))
    create_three(store)
    assert counted_statements(store, lambda: list_images(store)) == few == 1
