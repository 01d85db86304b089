# SPDX-License-Identifier: Apache-2.0
"""The caller's side of a scheduler: what is sent for each cap, and what comes back."""

import pytest

from roost.errors import OptionError, SelectionObjectsWithOldRPCVersionNotSupported, UnsupportedVersion
from roost.messages.options import RpcOptions
from roost.messages.scheduler_client import FORMS, SchedulerClient, parse_cap


class Sent:
    """A transport that keeps what it is given."""

    def call(self, topic, method, version, args, context, timeout, heartbeat_timeout=None):
        self.message = (topic, method, version, args)
        self.times = (timeout, heartbeat_timeout)
        return "answer"

    def cast(self, topic, method, version, args, context, fanout=False):
        self.message = (topic, method, version, args)
        self.fanout = fanout


class Objects:
    def to_wire(self, value):
        return {"envelope of": str(value)} if isinstance(value, Spec) else value

    def from_wire(self, value):
        return f"object of {value}"


class Spec:
    def __str__(self):
        return "spec"

    def to_legacy_request_spec_dict(self):
        return {"num_instances": 1}

    def to_legacy_filter_properties_dict(self):
        return {"retry": {}}


@pytest.fixture
def sent():
    return Sent()


@pytest.fixture
def client(sent):
    def make(cap=None, **options):
        return SchedulerClient(sent, Objects(), RpcOptions(scheduler_version=cap, **options))

    return make


ENVELOPE = {"envelope of": "spec"}
LEGACY = {"request_spec": {"num_instances": 1}, "filter_properties": {"retry": {}}}
NEWEST = {"spec_obj": ENVELOPE, "instance_uuids": ["u"], "return_objects": False, "return_alternates": False}


@pytest.mark.parametrize(
    ("cap", "version", "args"),
    [
        (None, "4.5", NEWEST),
        ("4.5", "4.5", NEWEST),
        ("4.9", "4.5", NEWEST),
        ("pike", "4.4", {"spec_obj": ENVELOPE, "instance_uuids": ["u"]}),
        ("Ocata", "4.3", {"spec_obj": ENVELOPE}),
        ("4.2", "4.0", LEGACY),
        ("kilo", "4.0", LEGACY),
        ("juno", "3.0", LEGACY),
        ("havana", "2.7", LEGACY),
    ],
)
def test_arguments_are_left_out_step_by_step(client, sent, context, cap, version, args):
    assert client(cap).select_destinations(context, Spec(), ["u"]) == "object of answer"
    assert sent.message == ("scheduler", "select_destinations", version, args)


def test_objects_are_refused_where_the_cap_has_none(client, context):
    with pytest.raises(SelectionObjectsWithOldRPCVersionNotSupported, match=r"need version 4\.5; 4\.4 is the newest"):
        client("pike").select_destinations(context, Spec(), ["u"], return_objects=True)


def test_alternates_without_objects_are_simply_not_asked_for(client, sent, context):
    client("pike").select_destinations(context, Spec(), ["u"], return_alternates=True)
    assert "return_alternates" not in sent.message[3]


def test_the_long_call_waits_long_and_wants_heartbeats(client, sent, context):
    client(long_rpc_timeout=900, rpc_response_timeout=7).select_destinations(context, Spec())
    assert sent.times == (900, 7)


def test_the_topic_is_an_option(client, sent, context):
    client(scheduler_topic="scheduler.cell1").select_destinations(context, Spec())
    assert sent.message[0] == "scheduler.cell1"


CASTS = [
    ("update_aggregates", (["a"],), "4.1", {"aggregates": ["a"]}),
    ("delete_aggregate", ("a",), "4.1", {"aggregate": "a"}),
    ("update_instance_info", ("h", "list"), "4.2", {"host_name": "h", "instance_info": "list"}),
    ("delete_instance_info", ("h", "u"), "4.2", {"host_name": "h", "instance_uuid": "u"}),
    ("sync_instance_info", ("h", ["u"]), "4.2", {"host_name": "h", "instance_uuids": ["u"]}),
]


@pytest.mark.parametrize(("method", "values", "version", "args"), CASTS, ids=[each[0] for each in CASTS])
def test_news_go_to_all_schedulers(client, sent, context, method, values, version, args):
    getattr(client(), method)(context, *values)
    assert sent.message == ("scheduler", method, version, args)
    assert sent.fanout


def test_run_instance_goes_to_one_and_loses_its_newest_argument_before_2_9(client, sent, context):
    arguments = ({"spec": 1}, "password", [], [], True, {})
    client().run_instance(context, *arguments)
    assert sent.message[2] == "3.0"
    assert sent.message[3]["legacy_bdm_in_spec"] is True
    client("grizzly").run_instance(context, *arguments)
    assert sent.message[2] == "2.0"
    assert "legacy_bdm_in_spec" not in sent.message[3]
    assert not sent.fanout


def test_the_other_methods_of_icehouse_are_there(client, sent, context):
    one = client("havana")
    one.prep_resize(context, "i", "t", "image", {}, {}, [])
    assert sent.message[1:3] == ("prep_resize", "2.0")
    one.live_migration(context, "i", "dest", True, False)
    assert sent.message[1:3] == ("live_migration", "2.0")
    assert sent.times == (60, None)
    assert one.select_hosts(context, {}, {}) == "object of answer"
    assert sent.message[1:3] == ("select_hosts", "2.6")
    one.show_host_resources(context, "h")
    one.get_backdoor_port(context)
    one.create_volume(context, {})
    assert sent.message[1] == "create_volume"


def test_every_form_has_a_method():
    assert [name for name in FORMS if not callable(getattr(SchedulerClient, name, None))] == []


def test_a_method_that_the_cap_does_not_have_is_refused(client, context):
    with pytest.raises(UnsupportedVersion, match=r"update_aggregates cannot be sent as version 4\.0"):
        client("4.0").update_aggregates(context, [])
    with pytest.raises(UnsupportedVersion, match=r"select_destinations cannot be sent as version 2\.6"):
        client("grizzly").select_destinations(context, Spec())


@pytest.mark.parametrize("cap", ["5.0", "1.0", "four", "4", "kil", "4.x"])
def test_what_is_no_cap_is_an_error_with_the_nearest(cap):
    with pytest.raises(OptionError, match=rf"\[upgrade_levels\] scheduler = {cap}: neither a version"):
        parse_cap(cap)


def test_no_cap_is_none():
    assert parse_cap(None) is parse_cap("") is None
