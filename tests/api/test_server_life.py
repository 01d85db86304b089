# SPDX-License-Identifier: Apache-2.0
"""The life of a server through openstacksdk, which finds, sends and waits as operators' tools do."""

import openstack
import pytest
from tests.api.cloud import PASSWORD
from tests.api.servers import IMAGE

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
WAIT = {"interval": 0.02, "wait": 30}


@pytest.fixture(scope="module")
def sdk(cloud):
    """A connection of the administrator in the project of administrators."""
    connection = openstack.connect(
        auth_url=f"{cloud.address}/identity/v3",
        username="root",
        password=PASSWORD,
        project_name="admins",
        user_domain_id="default",
        project_domain_id="default",
        identity_interface="public",
        region_name="RegionOne",
        load_yaml_config=False,
        load_envvars=False,
    )
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def server(sdk):
    """The server whose life this is; the tests follow one another."""
    flavor, image = sdk.compute.find_flavor("small"), sdk.image.find_image("debian-12")
    disk = {"uuid": image.id, "boot_index": 0, "source_type": "image", "destination_type": "local"}
    made = sdk.compute.create_server(
        name="life",
        flavor_id=flavor.id,
        image_id=image.id,
        networks="none",
        min_count=1,
        max_count=1,
        availability_zone="zone-a",
        block_device_mapping=[disk | {"delete_on_termination": True}],
    )
    yield sdk.compute.wait_for_server(made, **WAIT)
    sdk.compute.delete_server(made)
    sdk.compute.wait_for_delete(made, **WAIT)


def host_of(sdk, server):
    return sdk.compute.get_server(server).compute_host


def wait(sdk, server, status):
    return sdk.compute.wait_for_server(sdk.compute.get_server(server), status=status, **WAIT)


def test_it_is_found_by_name_and_listed(sdk, server):
    found = sdk.compute.find_server("life")
    assert (found.id, found.status, found.image.id, found.flavor.name) == (server.id, "ACTIVE", IMAGE, "small")
    assert [each.id for each in sdk.compute.servers(name="life", details=False)] == [server.id]
    (listed,) = sdk.compute.servers(name="life", all_projects=True)
    assert (listed.host_status, listed.availability_zone) == ("UP", "zone-a")


def test_it_is_renamed_and_has_metadata(sdk, server):
    sdk.compute.update_server(server, name="life 2", description="long")
    sdk.compute.set_server_metadata(server, role="web")
    found = sdk.compute.get_server(server)
    assert (found.name, found.description, found.metadata) == ("life 2", "long", {"role": "web"})
    sdk.compute.delete_server_metadata(server, ["role"])
    assert sdk.compute.get_server(server).metadata == {}


def test_it_is_resized_and_that_is_confirmed_or_reverted(sdk, server):
    for flavor, end in (("web", sdk.compute.confirm_server_resize), ("small", sdk.compute.revert_server_resize)):
        sdk.compute.resize_server(server, sdk.compute.find_flavor(flavor).id)
        wait(sdk, server, "VERIFY_RESIZE")
        end(server)
        assert wait(sdk, server, "ACTIVE").flavor.name == "web"


def test_it_is_migrated_to_another_host(sdk, server):
    before = host_of(sdk, server)
    sdk.compute.migrate_server(server)
    wait(sdk, server, "VERIFY_RESIZE")
    sdk.compute.confirm_server_resize(server)
    wait(sdk, server, "ACTIVE")
    assert host_of(sdk, server) != before
    (move, *_) = sdk.compute.migrations(instance_uuid=server.id, migration_type="migration")
    assert (move.status, move.source_compute, move.dest_compute) == ("confirmed", before, host_of(sdk, server))


def test_it_is_migrated_live(sdk, server):
    before = host_of(sdk, server)
    sdk.compute.live_migrate_server(server, host=None, block_migration="auto")
    wait(sdk, server, "ACTIVE")
    assert host_of(sdk, server) != before
    assert list(sdk.compute.server_migrations(server)) == []


def test_it_is_evacuated_from_a_host_that_is_down(sdk, server):
    before = host_of(sdk, server)
    (service,) = sdk.compute.services(host=before, binary="nova-compute")
    sdk.compute.update_service_forced_down(service, before, "nova-compute", True)
    try:
        sdk.compute.evacuate_server(server)
        wait(sdk, server, "ACTIVE")
        assert host_of(sdk, server) != before
    finally:
        sdk.compute.update_service_forced_down(service, before, "nova-compute", False)


def test_it_is_shelved_and_comes_back(sdk, server):
    sdk.compute.shelve_server(server)
    wait(sdk, server, "SHELVED_OFFLOADED")
    assert host_of(sdk, server) is None
    sdk.compute.unshelve_server(server)
    wait(sdk, server, "ACTIVE")


def test_it_is_rebuilt_stopped_and_started(sdk, server):
    sdk.compute.rebuild_server(server, image=IMAGE, name="life 3")
    wait(sdk, server, "ACTIVE")
    sdk.compute.stop_server(server)
    wait(sdk, server, "SHUTOFF")
    sdk.compute.start_server(server)
    assert wait(sdk, server, "ACTIVE").name == "life 3"
