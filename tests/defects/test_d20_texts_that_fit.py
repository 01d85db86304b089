# SPDX-License-Identifier: Apache-2.0
"""D20: a text of a request that no column can hold is refused at the door, in one line, before the database does."""

import pytest
from tests.flow.cloud import CONTEXT, UUID, request
from tests.unit.nova.icehouse.legacy_cloud import FLAVOR
from tests.unit.nova.icehouse.legacy_cloud import Cloud as OlderCloud

from roost.errors import FieldError, RemoteFailure
from roost.messages.objects.request import request_to_object
from roost.model import ServerGroup
from roost.store.columns import NAME
from roost.store.columns import UUID as UUID_COLUMN


@pytest.fixture
def cloud(make_cloud):
    made = make_cloud({"a": {}})
    made.service()
    return made


def refusal(cloud, spec):
    with pytest.raises(RemoteFailure) as caught:
        cloud.send("select_destinations", spec_obj=request_to_object(spec), instance_uuids=[UUID % 1])
    assert cloud.held(UUID % 1) == {}
    return str(caught.value)


@pytest.mark.parametrize("length", [37, 38, 100, 255, 256, 60_000])
def test_d20_a_group_uuid_that_is_longer_than_its_column_is_refused(cloud, length):
    said = refusal(cloud, request(instance_group=ServerGroup("anti-affinity", "g", "g" * length)))
    assert "Invalid: instance_group.uuid: 'ggg" in said
    assert "does not fit where uuids are kept (at most 36 characters)" in said
    assert "\n" not in said
    assert len(said) < 300


def test_d20_a_group_uuid_that_fits_is_taken_whether_uuid_or_not(cloud):
    for number, uuid in enumerate(["g" * UUID_COLUMN.length, "ä" * UUID_COLUMN.length, "{" + UUID % 77 + "}"]):
        group = ServerGroup("affinity", "g", uuid)
        cloud.client().select_destinations(CONTEXT, request(instance_group=group), [UUID % number])


def test_d20_a_group_uuid_of_dicts_is_refused_too(cloud):
    message = {"instance_type": FLAVOR, "instance_properties": {"uuid": UUID % 1}, "instance_uuids": [UUID % 1]}
    group = {"group_updated": True, "group_policies": ["affinity"], "group_uuid": "g" * 37, "group_hosts": []}
    with pytest.raises(RemoteFailure, match=r"instance_group\.uuid"):
        cloud.send("select_destinations", "4.0", request_spec=message, filter_properties=group)


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("project_id", request(project_id="p" * 256)),
        ("user_id", request(user_id="u" * 256)),
        ("instance_group.name", request(instance_group=ServerGroup("affinity", "n" * 256, UUID % 7))),
    ],
)
def test_d20_names_that_are_longer_than_their_column_are_refused(cloud, field, spec):
    assert NAME.length == 255
    said = refusal(cloud, spec)
    assert f"Invalid: {field}: " in said
    assert "at most 255 characters" in said


@pytest.mark.parametrize("text", ["g\0", "g\ud800"])
def test_d20_a_group_uuid_with_characters_that_databases_refuse(cloud, text):
    assert "instance_group.uuid" in refusal(cloud, request(instance_group=ServerGroup("affinity", "g", text)))


@pytest.mark.parametrize("uuid", ["x" * 37, "a\0", "vm-1"])
def test_d20_an_older_caller_claims_for_uuids_only(tmp_path, uuid):
    older = OlderCloud(tmp_path, {"a": {}})
    wanted = {"instance_type": FLAVOR, "instance_properties": {"uuid": uuid}, "num_instances": 3}
    with pytest.raises(FieldError, match=r"instance_properties\.uuid: .* is no uuid"):
        older.older.run_instance(CONTEXT, wanted, filter_properties={})
    assert older.vcpus_taken() == {"a": 0}
    older.close()


@pytest.mark.parametrize("uuid", ["x" * 37, "a\0"])
def test_d20_a_message_about_an_instance_that_no_column_can_hold_is_refused(cloud, uuid):
    with pytest.raises(RemoteFailure, match="instance_uuid"):
        cloud.send("delete_instance_info", "4.2", host_name="a", instance_uuid=uuid)
