# SPDX-License-Identifier: Apache-2.0
"""Name, description and metadata of servers: what is taken, and what is refused."""

import pytest
from tests.flow.whole_cloud import USER

from roost.conductor.names import (
    UPDATABLE,
    WrittenDetails,
    check_caller,
    check_description,
    check_details,
    check_metadata,
    check_name,
    hostnames_of,
    parse_details,
)
from roost.errors import BadInput, FieldError, UnknownName
from roost.messages.context import RequestContext


def test_a_givenwithout_details_has_none():
    assert parse_details({"name": "web"}) == WrittenDetails(None, {}, None)


def test_details_are_taken_as_they_are():
    wanted = {"description": "", "metadata": {"a.b c-1:_": "two\nlines"}, "reservation_id": "r-0a1b2c3d"}
    wanted |= {"hostname": "a.b", "access_ip_v4": "192.0.2.1", "access_ip_v6": "::1", "disk_config": "AUTO"}
    assert parse_details(wanted)._asdict() == wanted


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"description": "x" * 256}, "description"),
        ({"description": "bell\a"}, "description"),
        ({"description": 5}, "description"),
        ({"metadata": ["a"]}, "metadata: is no object"),
        ({"metadata": {f"k{at}": "v" for at in range(129)}}, "metadata: has 129 entries"),
        ({"metadata": {"": "v"}}, "is no key"),
        ({"metadata": {"k/v": "v"}}, "is no key"),
        ({"metadata": {"k\n": "v"}}, "is no key"),
        ({"metadata": {"k" * 256: "v"}}, "is no key"),
        ({"metadata": {"k": None}}, "metadata.k"),
        ({"metadata": {"k": "x" * 256}}, "metadata.k"),
        ({"metadata": {"k": "\0"}}, "metadata.k"),
        ({"metadata": {"k": "\ud800"}}, "metadata.k"),
        ({"reservation_id": "r 1"}, "reservation_id"),
        ({"reservation_id": 1}, "reservation_id"),
        ({"hostname": "x" * 256}, "hostname"),
        ({"hostname": "a_b"}, "hostname"),
        ({"access_ip_v4": "::1"}, "access_ip_v4"),
        ({"access_ip_v6": 1}, "access_ip_v6"),
        ({"disk_config": "auto"}, "disk_config"),
    ],
)
def test_what_no_record_can_hold_is_refused(given, problem):
    with pytest.raises(FieldError, match=problem):
        parse_details(given)


@pytest.mark.parametrize("changes", [{"colour": "red"}, {"metadata": {}}, None, ["name"]])
def test_an_update_takes_no_other_keys(changes):
    with pytest.raises(FieldError):
        check_details(changes, UPDATABLE)


def test_host_names_of_several_servers_are_numbered_and_fit():
    assert hostnames_of(["a", "B c"], None) == ["a", "b-c"]
    assert hostnames_of(["a", "b"], "web") == ["web-1", "web-2"]
    assert hostnames_of(["a"], "x" * 255) == ["x" * 255]
    with pytest.raises(FieldError, match="hostname"):
        hostnames_of(["a", "b"], "x" * 254)


def test_the_most_that_fits_is_taken():
    longest = "x" * 255
    assert check_name(longest) == check_description(longest) == longest
    assert len(check_metadata({longest: longest, **{f"k{at}": "" for at in range(127)}})) == 128


@pytest.mark.parametrize("name", ["", " ", "x" * 256, "two\nlines", 7, None])
def test_a_name_is_a_printable_text(name):
    with pytest.raises(FieldError, match="name: is no name"):
        check_name(name)


def test_a_caller_whose_project_does_not_fit_is_refused():
    check_caller(RequestContext.new("req", "u", "p"))
    with pytest.raises(FieldError, match="project_id"):
        check_caller(RequestContext.new("req", "u", "p" * 256))


def test_a_server_gets_another_name_and_description(cloud):
    (uuid,) = cloud.boot(context=USER)
    client = cloud.client(USER)
    changed = client.update_server(uuid, {"name": "db", "description": "spare"})
    assert (changed["name"], changed["description"]) == ("db", "spare")
    assert client.update_server(uuid, {"description": None})["description"] is None
    assert cloud.show(uuid)["name"] == "db"


@pytest.mark.parametrize(("changes", "problem"), [({"name": ""}, "name"), ({"host": "b"}, "host: is not known")])
def test_other_changes_are_refused(cloud, changes, problem):
    (uuid,) = cloud.boot()
    with pytest.raises(BadInput, match=problem):
        cloud.client().update_server(uuid, changes)


def test_metadata_are_added_replaced_and_removed(cloud):
    (uuid,) = cloud.boot(metadata={"a": "1"}, context=USER)
    client = cloud.client(USER)
    assert client.set_server_metadata(uuid, {"b": "2"})["metadata"] == {"a": "1", "b": "2"}
    assert client.delete_server_metadata(uuid, "a")["metadata"] == {"b": "2"}
    assert client.set_server_metadata(uuid, {"c": "3"}, replace=True)["metadata"] == {"c": "3"}
    with pytest.raises(UnknownName, match="no metadata with the key 'a'"):
        client.delete_server_metadata(uuid, "a")
    with pytest.raises(BadInput, match="metadata: has 129 entries"):
        client.set_server_metadata(uuid, {f"k{at}": "" for at in range(128)})
    assert cloud.show(uuid)["metadata"] == {"c": "3"}


def test_a_dry_run_changes_nothing_and_other_projects_find_nothing(cloud):
    (uuid,) = cloud.boot(metadata={"a": "1"})
    cloud.client().update_server(uuid, {"name": "db"}, dry_run=True)
    (step,) = cloud.client().delete_server_metadata(uuid, "a", dry_run=True)["plan"]
    assert (step["action"], cloud.show(uuid)["name"], cloud.show(uuid)["metadata"]) == (
        "delete metadata",
        "web",
        {"a": "1"},
    )
    with pytest.raises(UnknownName):
        cloud.client(USER).update_server(uuid, {"name": "mine"})
