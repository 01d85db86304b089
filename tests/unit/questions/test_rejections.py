# SPDX-License-Identifier: Apache-2.0
from collections import Counter

import pytest

from roost import Fleet, NoValidHost, PluginFailed, Scheduler
from roost.filters.base import HostFilter
from roost.model import Destination, Retry
from roost.questions.explain import list_rejections
from roost.questions.records import Rejection
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec

FLEET = Fleet.load(
    {
        "hosts": [
            {"host": "busy", "vcpus_total": 2, "vcpus_used": 8, "total_usable_ram_mb": 4096},
            {"host": "down", "vcpus_total": 8, "total_usable_ram_mb": 4096, "service": {"up": False}},
            {"host": "far", "vcpus_total": 8, "total_usable_ram_mb": 4096},
            {"host": "off", "vcpus_total": 8, "total_usable_ram_mb": 4096, "service": {"disabled": True}},
            {"host": "room", "node": "n1", "vcpus_total": 8, "total_usable_ram_mb": 65536, "traits": ["CUSTOM_GOLD"]},
            {"host": "room", "node": "n2", "vcpus_total": 8, "total_usable_ram_mb": 65536},
            {"host": "small", "vcpus_total": 8, "total_usable_ram_mb": 512},
        ],
        "aggregates": [
            {
                "name": "near",
                "hosts": ["busy", "down", "off", "room", "small"],
                "metadata": {"availability_zone": "az1"},
            }
        ],
    }
)
FILTERS = ["ComputeFilter", "AvailabilityZoneFilter", "RetryFilter", "RamFilter", "CoreFilter", "DiskFilter"]


def scheduler():
    return Scheduler(FLEET, options={"filter_scheduler": {"enabled_filters": FILTERS}}, seed=1)


REQUESTS = [
    pytest.param({"memory_mb": 1024, "availability_zone": "az1"}, id="zone"),
    pytest.param({"memory_mb": 1024, "availability_zone": "az9"}, id="no such zone"),
    pytest.param({"memory_mb": 10**6}, id="too large"),
    pytest.param({"root_gb": 1}, id="no disk anywhere"),
    pytest.param({"vcpus": 9}, id="too many CPUs"),
    pytest.param({"ignore_hosts": ["ROOM", "far"]}, id="ignored"),
    pytest.param({"force_hosts": ["down"]}, id="forced"),
    pytest.param({"force_nodes": ["n2"]}, id="forced node"),
    pytest.param({"requested_destination": Destination(host="off")}, id="destination"),
    pytest.param({"retry": Retry(hosts=[("room", "n1"), ("far", "far")])}, id="tried"),
    pytest.param({"extra_specs": {"trait:CUSTOM_GOLD": "required"}}, id="trait"),
    pytest.param({"extra_specs": {"resources:CUSTOM_GPU": "1"}}, id="class that nobody has"),
    pytest.param({"scheduler_hints": {"_nova_check_type": ["rebuild"]}}, id="rebuild"),
]


@pytest.mark.parametrize("fields", REQUESTS)
def test_the_counts_are_those_of_the_decision(fields):
    spec = make_spec(**fields)
    told = Counter(each.name for each in scheduler().explain(spec).rejections)
    try:
        decision = scheduler().place(spec)
    except NoValidHost as error:
        decision = error.decision
    assert told == decision.rejected


@pytest.mark.parametrize("fields", REQUESTS)
def test_every_rejected_host_has_one_reason_on_one_line(fields):
    told = scheduler().explain(make_spec(**fields)).rejections
    assert len({(each.host, each.node) for each in told}) == len(told)
    assert all(each.reason and "\n" not in each.reason for each in told)


def test_each_host_is_told_the_first_step_that_took_it_out():
    told = scheduler().explain(make_spec(memory_mb=1024, retry=Retry(num_attempts=2, hosts=[("far", "far")])))
    assert list(told.rejections) == [
        Rejection("busy", "busy", "capacity", "vcpu", "1 vcpu asked; 0 of 8 left"),
        Rejection("down", "down", "filter", "ComputeFilter", "the compute service is down"),
        Rejection("far", "far", "filter", "RetryFilter", "tried already; this is attempt 2"),
        Rejection("off", "off", "capacity", "disabled", "the host is disabled"),
        Rejection("small", "small", "capacity", "ram", "1024 MiB ram asked; 512 of 512 left"),
    ]


def test_a_request_that_every_host_can_take_is_told_nothing():
    pipeline = Pipeline([], [])
    assert list_rejections(pipeline, make_hosts(2, vcpus_total=1, total_usable_ram_mb=512), make_spec()) == ()


def test_asking_why_takes_nothing():
    asked = scheduler()
    before = asked.table.changes.version
    asked.explain(make_spec())
    assert asked.table.changes.version == before


def test_for_the_list_every_filter_is_asked_once_and_none_when_no_host_is_left():
    asked = []

    class Flickers(HostFilter):
        """Answers no, and would say yes the next time."""

        def filter_all(self, filter_obj_list, spec_obj):
            asked.append([host.host for host in filter_obj_list])
            return filter_obj_list if len(asked) > 1 else []

    class NeedsSomebody(HostFilter):
        def filter_all(self, filter_obj_list, spec_obj):
            return [max(filter_obj_list, key=lambda host: host.host)]

    pipeline = Pipeline([Flickers(), NeedsSomebody()], [], checks_capacity=False)
    told = list_rejections(pipeline, make_hosts(host=["a", "b"]), make_spec())
    assert [(each.host, each.reason) for each in told] == [("a", "Flickers said no"), ("b", "Flickers said no")]
    assert asked == [["a", "b"]]


def test_what_was_placed_before_counts():
    asked = scheduler()
    for _ in range(32):
        asked.place(make_spec(vcpus=1, memory_mb=1, force_nodes=["n1"]))
    told = {(each.host, each.node): each.reason for each in asked.explain(make_spec(vcpus=1, memory_mb=1)).rejections}
    assert told["room", "n1"] == "1 vcpu asked; 0 of 32 left"


class Stumbling(HostFilter):
    """Rejects, and cannot say why."""

    def host_passes(self, host_state, spec_obj):
        return False

    def reason(self, host, spec_obj):
        raise KeyError("no words")


def test_a_filter_that_cannot_say_why_is_named_with_the_host():
    pipeline = Pipeline([Stumbling()], [])
    with pytest.raises(PluginFailed, match="Stumbling failed on host a: KeyError"):
        list_rejections(pipeline, make_hosts(host=["a"], vcpus_total=8, total_usable_ram_mb=8192), make_spec())
