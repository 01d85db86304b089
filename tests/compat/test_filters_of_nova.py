# SPDX-License-Identifier: Apache-2.0
"""Filters written for nova from 2013 to 2025 load as they are, and decide as they did."""

import pytest
from tests.compat.conftest import DOCUMENT, SMALL, ask

from roost import Flavor, RequestSpec, ServerGroup
from roost.model import Image
from roost.model.request import Retry

ALL = {"a1", "a2", "b1", "c1"}
REBUILD = {"_nova_check_type": ["rebuild"]}
GROUP = ServerGroup(policy="legacy", uuid="5c1e0e0c-0000-4000-8000-00000000000a", name="spread")


def extra(**specs):
    return Flavor(vcpus=1, memory_mb=1024, root_gb=1, extra_specs=specs)


CASES = [
    ("havana_rack_filter.RackFilter", "", {}, ALL),
    ("havana_rack_filter.RackFilter", "", {"scheduler_hints": {"rack": "r1"}}, {"a1", "a2"}),
    ("havana_rack_filter.RackFilter", "", {"scheduler_hints": {"rack": "r2"}}, {"b1"}),
    ("havana_rack_filter.RackFilter", "[DEFAULT]\nrack_key = tenant\n", {"scheduler_hints": {"rack": "r1"}}, set()),
    ("icehouse_tenant_filter.TenantFilter", "", {}, ALL),
    ("icehouse_tenant_filter.TenantFilter", "", {"project_id": "red"}, {"b1", "c1"}),
    ("kilo_headroom_filter.HeadroomFilter", "", {}, ALL),
    ("kilo_headroom_filter.HeadroomFilter", "[headroom]\nram_headroom_mb = 3000\n", {}, {"b1", "c1"}),
    ("liberty_quiet_filter.QuietFilter", "", {}, ALL),
    ("liberty_quiet_filter.QuietFilter", "", {"scheduler_hints": {"quiet": "yes"}}, {"a2", "b1", "c1"}),
    ("liberty_quiet_filter.QuietFilter", "", {"scheduler_hints": {"quiet": "1", "avoid": '["a2", "b1"]'}}, {"c1"}),
    ("liberty_quiet_filter.QuietFilter", "", {"scheduler_hints": {"quiet": "1", "avoid": ["b1", "c1"]}}, {"a2"}),
    (
        "liberty_quiet_filter.QuietFilter",
        "",
        {"scheduler_hints": {"quiet": "yes"}, "retry": Retry(2, (("b1", "b1"),))},
        {"a2", "c1"},
    ),
    ("mitaka_licence_filter.LicenceFilter", "", {}, ALL),
    ("mitaka_licence_filter.LicenceFilter", "", {"image": Image(properties={"os_distro": "rhel"})}, {"a1", "a2"}),
    ("newton_burst_filter.BurstFilter", "", {}, ALL),
    ("newton_burst_filter.BurstFilter", "[burst]\nenabled = true\nhosts = a1, c1\n", {}, {"a2", "b1"}),
    (
        "newton_burst_filter.BurstFilter",
        "[burst]\nenabled = true\nhosts = a1,c1\n",
        {"flavor": extra(burst="yes")},
        {"a1", "c1"},
    ),
    ("pike_neighbour_filter.NeighbourFilter", "", {}, {"a2", "b1", "c1"}),
    ("pike_neighbour_filter.NeighbourFilter", "", {"scheduler_hints": {"near": ["i3", "gone"]}}, {"a2"}),
    ("queens_first_two_filter.FirstTwoFilter", "", {}, {"b1", "c1"}),
    ("queens_first_two_filter.FirstTwoFilter", "", {"flavor": Flavor(vcpus=3, memory_mb=64)}, {"b1", "c1"}),
    ("rocky_lazy_filter.LazyFilter", "", {}, {"a1", "a2"}),
    ("train_careful_ram_filter.CarefulRamFilter", "", {}, {"a2", "b1", "c1"}),
    ("train_careful_ram_filter.CarefulRamFilter", "", {"flavor": Flavor(vcpus=1, memory_mb=3000)}, {"a2", "c1"}),
    ("train_careful_ram_filter.PatientComputeFilter", "", {}, ALL),
    ("victoria_alive_filter.AliveFilter", "", {}, ALL),
    ("bobcat_typed_filter.TypedFilter", "", {}, {"a1", "b1", "c1"}),
    ("caracal_domain_filter.DomainFilter", "", {}, ALL),
    ("caracal_domain_filter.DomainFilter", "", {"instance_group": GROUP}, ALL),
    ("epoxy_crowd_filter.CrowdFilter", "", {}, {"b1", "c1"}),
    ("flamingo_collection.CpuModelFilter", "", {"flavor": extra(cpu_model="<or> ice <or> cascade")}, {"a1"}),
    ("icehouse_habits.OneByOneFilter", "", {}, {"a2", "b1", "c1"}),
    ("icehouse_habits.AsksOneByOneFilter", "", {}, {"a1", "b1", "c1"}),
    ("icehouse_habits.WeedingFilter", "", {}, {"b1", "c1"}),
    ("icehouse_habits.FlavorFilter", "", {"flavor": extra(colour="red")}, ALL),
    ("icehouse_habits.ContextFilter", "", {}, ALL),
    ("icehouse_habits.OtherNameFilter", "", {}, ALL),
    ("icehouse_habits.CopyingFilter", "", {"flavor": extra(colour="red"), "ignore_hosts": ("x",)}, ALL),
    ("icehouse_habits.OptionFilter", "", {}, set()),
    (
        "icehouse_habits.OptionFilter",
        "[DEFAULT]\nram_allocation_ratio = 2.5\nallow_resize_to_same_host = yes\n",
        {"project_id": "blue"},
        ALL,
    ),
    ("icehouse_habits.GpuFilter", "gpu_weight_multiplier = 7\n", {}, {"b1"}),
]


def shown(value):
    """A set is in another order in each process, and processes that share tests must call them the same."""
    return str(sorted(value) if isinstance(value, set) else value)[:60]


@pytest.mark.parametrize(("path", "lines", "spec", "expected"), CASES, ids=shown)
def test_a_filter_of_nova_decides(scheduler_with, path, lines, spec, expected):
    assert set(ask(scheduler_with(path, lines=lines), **spec)) == expected


def test_all_of_them_together_decide_as_each_for_itself(scheduler_with):
    paths = list(dict.fromkeys(path for path, _, spec, expected in CASES if not spec and expected >= {"b1", "c1"}))
    assert len(paths) > 10
    assert set(ask(scheduler_with(*paths))) == {"b1", "c1"}


def test_a_group_keeps_away_from_the_failure_domain_of_its_members(scheduler_with):
    group = {"name": "spread", "uuid": GROUP.uuid, "policy": "legacy", "members": ["i3"]}
    scheduler = scheduler_with("caracal_domain_filter.DomainFilter", document=DOCUMENT | {"server_groups": [group]})
    assert set(ask(scheduler, instance_group=GROUP)) == {"b1", "c1"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [("mitaka_licence_filter.LicenceFilter", {"a1", "a2"}), ("bobcat_typed_filter.TypedFilter", ALL)],
    ids=["RUN_ON_REBUILD", "not"],
)
def test_rebuilds_go_through_the_filters_that_ask_for_it(scheduler_with, path, expected):
    image = Image(properties={"os_distro": "rhel"})
    assert set(ask_rebuild(scheduler_with(path), image)) == expected


def ask_rebuild(scheduler, image):
    spec = RequestSpec(flavor=SMALL, image=image, scheduler_hints=REBUILD, instance_uuid="i9")
    decision = scheduler.place(spec, alternates=10)
    return [each.host for each in (*decision.selections, *decision.selections[0].alternates)]


def test_a_silent_host_passes_where_the_derived_filter_says_so(scheduler_with):
    hosts = [
        {**DOCUMENT["hosts"][2], "service": {"up": False, "disabled_reason": reason}, "host": name}
        for name, reason in (("soon", "soon back"), ("broken", "broken"))
    ]
    scheduler = scheduler_with("train_careful_ram_filter.PatientComputeFilter", document={"hosts": hosts})
    assert ask(scheduler) == ["soon"]


def test_the_reason_is_the_built_ins_where_it_says_no(scheduler_with):
    scheduler = scheduler_with("train_careful_ram_filter.CarefulRamFilter")
    rejections = scheduler.explain(RequestSpec(flavor=Flavor(vcpus=1, memory_mb=512))).rejections
    assert {each.host: each.reason for each in rejections} == {"a1": "CarefulRamFilter said no"}
    rejections = scheduler.explain(RequestSpec(flavor=Flavor(vcpus=1, memory_mb=3000))).rejections
    words = {each.host: each.reason for each in rejections if each.name == "CarefulRamFilter"}
    assert words.get("b1", "3000 MiB of memory asked").startswith("3000 MiB of memory asked")


def test_the_ceilings_of_the_built_in_travel_with_the_host(scheduler_with):
    decision = scheduler_with("train_careful_ram_filter.CarefulRamFilter").place(RequestSpec(flavor=SMALL))
    assert (
        decision.selections[0].limits["memory_mb"]
        == {"a2": 4096, "b1": 2048, "c1": 16384}[decision.selections[0].host]
    )


def test_what_a_filter_writes_into_limits_travels_with_the_host(scheduler_with):
    spec = RequestSpec(flavor=SMALL, scheduler_hints={"quiet": "yes"})
    decision = scheduler_with("liberty_quiet_filter.QuietFilter").place(spec)
    assert decision.selections[0].limits["quiet_since"] >= 2024


def test_a_function_may_give_novas_filters_and_more(scheduler_with):
    scheduler = scheduler_with(
        "CpuModelFilter", "RamFilter", lines="available_filters = flamingo_collection.every_filter\n"
    )
    assert [type(each).__module__ for each in scheduler.pipeline.rules.filters] == [
        "flamingo_collection",
        "roost.filters.ram",
    ]


def test_a_function_may_give_them_one_by_one(scheduler_with):
    scheduler = scheduler_with(
        "OneByOneFilter", "WeedingFilter", lines="available_filters = icehouse_habits.some_filters\n"
    )
    assert set(ask(scheduler)) == {"b1", "c1"}
