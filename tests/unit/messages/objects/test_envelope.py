# SPDX-License-Identifier: Apache-2.0
"""Envelopes: any minor version of the right object is opened, everything else is refused in one line."""

import pytest

from roost.errors import FieldError
from roost.messages.objects.envelope import (
    close_envelope,
    close_list,
    is_envelope,
    open_envelope,
    open_list,
    open_record,
)


@pytest.mark.parametrize(("version", "is_newer"), [("1.0", False), ("1.15", False), ("1.16", True), ("1.999", True)])
def test_any_minor_version_is_opened(envelope, version, is_newer):
    opened = open_envelope(envelope("RequestSpec", version, a=1), "RequestSpec", "spec_obj")
    assert (dict(opened.data), opened.is_newer) == ({"a": 1}, is_newer)


@pytest.mark.parametrize("version", ["2.0", "0.9", "10.1"])
def test_another_major_is_refused_with_the_one_that_is_understood(envelope, version):
    with pytest.raises(FieldError) as error:
        open_envelope(envelope("RequestSpec", version), "RequestSpec", "spec_obj")
    assert str(error.value) == f"spec_obj: RequestSpec {version} is not understood (send RequestSpec 1.x)"


@pytest.mark.parametrize("version", [None, 1, 1.5, "", "1", "1.x", "1.2.3", "one", [1, 0], "\u0661.\u0662"])
def test_what_is_no_version_is_refused(envelope, version):
    with pytest.raises(FieldError, match=r"^spec_obj: .* is no version of RequestSpec"):
        open_envelope(envelope("RequestSpec", version), "RequestSpec", "spec_obj")


@pytest.mark.parametrize("version", ["1.20", "2.0", "2.9"])
def test_instances_of_both_majors_are_opened(envelope, version):
    assert open_envelope(envelope("Instance", version, uuid="i"), "Instance", "instance").data == {"uuid": "i"}


@pytest.mark.parametrize(("name", "namespace"), [("Flavor", "nova"), ("RequestSpec", "cinder"), (None, "nova")])
def test_another_object_is_refused(envelope, name, namespace):
    with pytest.raises(FieldError, match=r"^spec_obj: is an object .* \(send a nova.RequestSpec\)$"):
        open_envelope(envelope(name, "1.0", namespace), "RequestSpec", "spec_obj")


@pytest.mark.parametrize("value", [None, 5, "RequestSpec", [], {}, {"nova_object.data": {}}])
def test_what_is_no_envelope_is_refused(value):
    assert not is_envelope(value)
    with pytest.raises(FieldError, match=r"^spec_obj: .* is no object of nova's"):
        open_envelope(value, "RequestSpec", "spec_obj")


@pytest.mark.parametrize("data", [None, 5, [], "x"])
def test_fields_are_a_mapping(envelope, data):
    with pytest.raises(FieldError, match=r"^spec_obj.nova_object.data: "):
        open_envelope(envelope("RequestSpec") | {"nova_object.data": data}, "RequestSpec", "spec_obj")


def test_a_record_may_be_a_plain_mapping(envelope):
    assert open_record({"a": 1}, "Flavor", "flavor").data == {"a": 1}
    assert open_record(envelope("Flavor", a=1), "Flavor", "flavor").data == {"a": 1}


@pytest.mark.parametrize(
    ("value", "objects"), [(None, []), ([1, 2], [1, 2]), ({"objects": [3]}, [3]), ({"objects": None}, []), ({}, [])]
)
def test_a_list_may_be_plain_or_an_object(envelope, value, objects):
    value = envelope("InstanceList", **value) if isinstance(value, dict) else value
    assert open_list(value, "InstanceList", "instances") == objects


def test_what_is_no_list_is_refused():
    with pytest.raises(FieldError, match=r"^instances: 5 is not a list"):
        open_list(5, "InstanceList", "instances")


def test_an_envelope_is_closed_with_the_version_that_is_known():
    assert close_envelope("Flavor", {"id": 1}) == {
        "nova_object.name": "Flavor",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.2",
        "nova_object.data": {"id": 1},
    }
    assert close_list("InstanceList", [])["nova_object.data"] == {"objects": []}
