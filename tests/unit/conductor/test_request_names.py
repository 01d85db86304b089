# SPDX-License-Identifier: Apache-2.0
"""What clients name in requests: found by id before name, and only what they may use."""

import uuid

import pytest
from tests.flow.whole_cloud import ADMIN, USER

from roost.errors import UnknownName
from roost.records.flavor_catalogue import NewFlavor, create_flavor
from roost.records.image_catalogue import NewImage, create_image

FIRST_ID = str(uuid.UUID(int=1))
"""Of an image that is listed before all others."""


@pytest.fixture
def make_image(cloud):
    def make(name, **more):
        return create_image(cloud.engine, NewImage(name, **more), cloud.clock.now()).id

    return make


def test_an_image_with_the_id_of_another_as_its_name_does_not_stand_for_it(cloud, make_image):
    meant = make_image("debian")
    make_image(meant, id=FIRST_ID, owner="red", visibility="community")
    (server,) = cloud.boot(context=USER, image=meant)
    assert cloud.store.get(server).image_id == meant


def test_a_flavor_with_the_id_of_another_as_its_name_does_not_stand_for_it(cloud):
    for name, key, memory_mb in (("2", "first", 64), ("second", "2", 128)):
        create_flavor(cloud.engine, NewFlavor(name, vcpus=1, memory_mb=memory_mb, flavorid=key), cloud.clock.now())
    (server,) = cloud.boot(context=USER, flavor="2")
    assert cloud.store.get(server).spec.flavor.name == "second"


@pytest.mark.parametrize("visibility", ["private", "shared"])
def test_a_member_has_the_images_of_its_own_project_and_not_those_of_others(cloud, make_image, visibility):
    make_image("own", owner=USER.project_id, visibility=visibility)
    cloud.boot(context=USER, image="own")
    for wanted in (make_image("secret", owner="red", visibility=visibility), "secret", "secrets"):
        with pytest.raises(UnknownName) as refused:
            cloud.boot(context=USER, image=wanted)
        assert "secret" not in refused.value.hint
    cloud.boot(context=ADMIN, image="secret")


def test_a_member_has_no_flavor_that_is_not_public(cloud):
    create_flavor(cloud.engine, NewFlavor("hidden", vcpus=1, memory_mb=64, is_public=False), cloud.clock.now())
    for wanted in ("hidden", "hiddem"):
        with pytest.raises(UnknownName) as refused:
            cloud.client(USER).create_servers({"name": "web", "flavor": wanted}, dry_run=True)
        assert "hidden" not in refused.value.hint
    cloud.boot(context=ADMIN, flavor="hidden")
