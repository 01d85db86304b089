# SPDX-License-Identifier: Apache-2.0
"""The Aggregate and Exact forms of the CPU, memory and disk filters: spec/filters.md 3.2, 5.1 to 5.3, 5.17 and 9."""

import math
import random

import pytest

from roost.filters.base import applies_to_rebuild
from roost.filters.core import AggregateCoreFilter, CoreFilter, ExactCoreFilter
from roost.filters.disk import AggregateDiskFilter, DiskFilter, ExactDiskFilter
from roost.filters.ram import AggregateRamFilter, ExactRamFilter, RamFilter
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec

AGGREGATE = [AggregateCoreFilter, AggregateDiskFilter, AggregateRamFilter]
EXACT = [ExactCoreFilter, ExactDiskFilter, ExactRamFilter]
KEYS = {
    AggregateCoreFilter: "cpu_allocation_ratio",
    AggregateDiskFilter: "disk_allocation_ratio",
    AggregateRamFilter: "ram_allocation_ratio",
}


def aggregates_with(key, values):
    return [[{key: value} for value in values]]


# --- a number per aggregate (3.2) --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "number"),
    [
        pytest.param([], 8, id="no value: the default"),
        pytest.param(["10"], 10, id="one value"),
        pytest.param(["10", "9"], 9, id="the smaller number, not the smaller text"),
        pytest.param(["XX", "20"], 8, id="one bad value spoils them all"),
        pytest.param(["10.5"], 8, id="no integer"),
        pytest.param(["9,10"], 8, id="no comma lists"),
        pytest.param([" 10 "], 10, id="blanks around"),
        pytest.param(["+10"], 10, id="a sign"),
        pytest.param(["-10", "3"], -10, id="a minus sign"),
    ],
)
def test_a_numeric_setting_of_aggregates(values, number):
    hosts = make_hosts(1, aggregates=aggregates_with("limit", values))
    (host,) = hosts
    assert host.aggregate_min("limit", default=8) == number
    column = hosts.aggregate_min("limit", default=8)
    assert (column if values == [] else column.tolist()) == (8 if values == [] else [number])


@pytest.mark.parametrize(
    ("values", "number"), [(["1.5", "2"], 1.5), (["1e1"], 10.0), (["x"], 8.0), (["inf"], math.inf)]
)
def test_a_setting_may_be_a_real_number(values, number):
    hosts = make_hosts(1, aggregates=aggregates_with("limit", values))
    assert hosts.aggregate_min("limit", default=8.0, cast=float).tolist() == [number]


def test_a_value_that_is_not_a_number_in_name_only_makes_the_setting_none_whatever_the_order():
    for values in (["nan", "2", "1"], ["2", "nan", "1"], ["1", "2", "nan"]):
        hosts = make_hosts(1, aggregates=aggregates_with("limit", values))
        assert math.isnan(hosts.aggregate_min("limit", default=8.0, cast=float)[0])


# --- Aggregate forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "used", "values", "host_ratio", "asked", "passes", "limit"),
    [
        pytest.param(4, 10, ["3", "4"], 16.0, 2, True, 12.0, id="the smaller ratio, exactly enough"),
        pytest.param(4, 11, ["3", "4"], 16.0, 2, False, 12.0, id="one more used"),
        pytest.param(4, 10, ["x", "3"], 16.0, 2, True, 64.0, id="a bad value: the host's own"),
        pytest.param(4, 8, [], 2.0, 1, False, 8.0, id="no aggregate: as CoreFilter"),
        pytest.param(4, 7, ["2.0"], 1.0, 1, True, 8.0, id="more than the host's own"),
        pytest.param(1, 0, ["16.0"], 1.0, 2, False, 16.0, id="no overcommit against itself"),
        pytest.param(0, 0, ["16.0"], 1.0, 8, True, None, id="no CPU count: passes without a limit"),
        pytest.param(4, 0, ["0.0"], 16.0, 1, False, None, id="ratio 0: nothing fits, no limit"),
        pytest.param(4, 0, ["nan"], 16.0, 1, False, None, id="not a number: nothing fits, no limit"),
    ],
)
def test_aggregate_core_examples(total, used, values, host_ratio, asked, passes, limit):
    hosts = make_hosts(
        1,
        vcpus_total=total,
        vcpus_used=used,
        cpu_allocation_ratio=host_ratio,
        aggregates=aggregates_with("cpu_allocation_ratio", values),
    )
    spec = make_spec(vcpus=asked)
    assert AggregateCoreFilter().mask(hosts, spec).tolist() == [passes]
    (written,) = AggregateCoreFilter().ceilings(hosts, spec)["vcpu"].tolist()
    assert (None if math.isnan(written) else written) == limit


@pytest.mark.parametrize(
    ("total", "free", "values", "host_ratio", "asked", "passes"),
    [
        pytest.param(1024, 1023, ["1.5", "2.0"], 1.0, 1024, True, id="the smaller ratio is enough"),
        pytest.param(1024, 1023, ["XXX"], 1.0, 1024, False, id="a bad value: the host's own"),
        pytest.param(1024, -511, ["1.5"], 1.0, 1, True, id="usable 1"),
        pytest.param(1024, -512, ["1.5"], 4.0, 1, False, id="usable 0, though the host itself would take more"),
        pytest.param(1024, 1024, ["2.0"], 1.0, 2048, False, id="more than the host has in all"),
        pytest.param(0, 0, ["inf"], 1.0, 1, False, id="nothing, times whatever"),
    ],
)
def test_aggregate_ram_examples(total, free, values, host_ratio, asked, passes):
    hosts = make_hosts(
        1,
        total_usable_ram_mb=total,
        free_ram_mb=free,
        ram_allocation_ratio=host_ratio,
        aggregates=aggregates_with("ram_allocation_ratio", values),
    )
    assert AggregateRamFilter().mask(hosts, make_spec(memory_mb=asked)).tolist() == [passes]


@pytest.mark.parametrize(
    ("total_gb", "free_mb", "values", "sizes", "passes"),
    [
        pytest.param(10, 3072, ["1.0"], (1, 1, 1024), True, id="exactly enough, swap included"),
        pytest.param(10, 3071, ["1.0"], (1, 1, 1024), False, id="one MiB short"),
        pytest.param(10, 0, ["1.5", "3"], (5, 0, 0), True, id="5120 = 15360 - 10240"),
        pytest.param(10, 10240, ["2.0"], (15, 0, 0), False, id="more than the host has in all"),
        pytest.param(10, -1024, ["1.0"], (0, 0, 0), False, id="usable -1024"),
        pytest.param(10, -1024, ["1.5"], (4, 0, 0), True, id="usable 4096"),
        pytest.param(10, 0, ["lots"], (5, 0, 0), False, id="a bad value: the host's own 1.0"),
    ],
)
def test_aggregate_disk_examples(total_gb, free_mb, values, sizes, passes):
    hosts = make_hosts(
        1,
        total_usable_disk_gb=total_gb,
        free_disk_mb=free_mb,
        aggregates=aggregates_with("disk_allocation_ratio", values),
    )
    root, ephemeral, swap = sizes
    spec = make_spec(root_gb=root, ephemeral_gb=ephemeral, swap=swap)
    assert AggregateDiskFilter().mask(hosts, spec).tolist() == [passes]


@pytest.mark.parametrize("plugin", AGGREGATE)
def test_each_host_goes_by_its_own_aggregates(plugin):
    hosts = make_hosts(
        vcpus_total=4,
        vcpus_used=4,
        total_usable_ram_mb=1024,
        free_ram_mb=0,
        total_usable_disk_gb=10,
        free_disk_mb=0,
        cpu_allocation_ratio=1.0,
        aggregates=[[{KEYS[plugin]: "2.0"}], [], [{KEYS[plugin]: "1.0"}, {KEYS[plugin]: "2.0"}], [{"other": "9"}]],
    )
    assert plugin().mask(hosts, make_spec(vcpus=1, memory_mb=1, root_gb=1)).tolist() == [True, False, False, False]


# --- Exact forms (5.17) ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "used", "asked", "passes"),
    [(4, 1, 3, True), (4, 1, 2, False), (0, 0, 1, False), (0, 0, 0, False), (4, 4, 0, True)],
)
def test_exact_core_examples(total, used, asked, passes):
    hosts = make_hosts(1, vcpus_total=total, vcpus_used=used)
    assert ExactCoreFilter().mask(hosts, make_spec(vcpus=asked)).tolist() == [passes]


@pytest.mark.parametrize(("asked", "passes"), [(1024, True), (1000, False)])
def test_exact_ram_examples_with_1024_free(asked, passes):
    hosts = make_hosts(1, total_usable_ram_mb=4096, free_ram_mb=1024)
    assert ExactRamFilter().mask(hosts, make_spec(memory_mb=asked)).tolist() == [passes]


@pytest.mark.parametrize(("swap", "passes"), [(1024, True), (1, False)])
def test_exact_disk_examples_with_3072_free(swap, passes):
    hosts = make_hosts(1, total_usable_disk_gb=10, free_disk_mb=3072)
    assert ExactDiskFilter().mask(hosts, make_spec(root_gb=1, ephemeral_gb=1, swap=swap)).tolist() == [passes]


# --- limits (9) --------------------------------------------------------------------------------------

ROOMY = {
    "vcpus_total": 8,
    "vcpus_used": 5,
    "cpu_allocation_ratio": 2.0,
    "total_usable_ram_mb": 4096,
    "free_ram_mb": 1024,
    "ram_allocation_ratio": 1.5,
    "total_usable_disk_gb": 10,
    "free_disk_mb": 3072,
    "disk_allocation_ratio": 1.25,
}
FITTING = {"vcpus": 3, "memory_mb": 1024, "root_gb": 1, "ephemeral_gb": 1, "swap": 1024}


def limits_after(*filters, **columns):
    table = make_hosts(1, **(ROOMY | columns))
    pipeline = Pipeline(filters, [], checks_capacity=False)
    decision = pipeline.place(table, make_spec(**FITTING), ["u"], randomness=random.Random(0), clock=lambda: 0)
    return decision.selections[0].limits


@pytest.mark.parametrize(
    ("plugin", "limits"),
    [
        (CoreFilter, {"vcpu": 16.0}),
        (AggregateCoreFilter, {"vcpu": 24.0}),
        (ExactCoreFilter, {"vcpu": 8}),
        (RamFilter, {"memory_mb": 6144.0}),
        (AggregateRamFilter, {"memory_mb": 12288.0}),
        (ExactRamFilter, {"memory_mb": 4096}),
        (DiskFilter, {"disk_gb": 12.5}),
        (AggregateDiskFilter, {"disk_gb": 30.0}),
        (ExactDiskFilter, {"disk_gb": 10}),
    ],
)
def test_the_limit_that_travels_with_the_selection(plugin, limits):
    thrice = {f"{resource}_allocation_ratio": "3.0" for resource in ("cpu", "ram", "disk")}
    assert limits_after(plugin(), aggregates=[[thrice]]) == limits


@pytest.mark.parametrize(("first", "second", "limit"), [(CoreFilter, AggregateCoreFilter, 24.0)])
def test_of_two_filters_that_write_the_same_limit_the_later_wins(first, second, limit):
    aggregates = aggregates_with("cpu_allocation_ratio", ["3.0"])
    assert limits_after(first(), second(), aggregates=aggregates) == {"vcpu": limit}
    assert limits_after(second(), first(), aggregates=aggregates) == {"vcpu": 16.0}


def test_a_host_without_cpu_count_gets_no_limit():
    assert limits_after(AggregateCoreFilter(), vcpus_total=0) == {}


# --- flags and reasons -------------------------------------------------------------------------------


@pytest.mark.parametrize("plugin", [*AGGREGATE, *EXACT])
def test_they_are_asked_for_every_instance_and_not_on_rebuild(plugin):
    assert plugin().run_filter_for_index(1)
    assert not applies_to_rebuild(plugin())


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (AggregateCoreFilter, "9 CPUs asked; the host has 8 in all"),
        (AggregateRamFilter, "4000 MiB of memory asked; 1024 left of 4096 x 1"),
        (AggregateDiskFilter, "4096 MiB of disk asked; 3072 left of 10240 x 1"),
        (ExactCoreFilter, "exactly 9 CPUs asked; 3 free"),
        (ExactRamFilter, "exactly 4000 MiB of memory asked; 1024 free"),
        (ExactDiskFilter, "exactly 4096 MiB of disk asked; 3072 free"),
    ],
)
def test_the_reason_names_what_was_asked_and_what_was_there(plugin, reason):
    once = {f"{resource}_allocation_ratio": "1.0" for resource in ("cpu", "ram", "disk")}
    hosts = make_hosts(1, **ROOMY, aggregates=[[once]])
    spec = make_spec(vcpus=9, memory_mb=4000, root_gb=4)
    assert plugin().mask(hosts, spec).tolist() == [False]
    assert plugin().reason(next(iter(hosts)), spec) == reason


def test_the_reason_of_an_exact_filter_says_when_there_is_no_count():
    (host,) = make_hosts(1, vcpus_total=0)
    assert ExactCoreFilter().reason(host, make_spec(vcpus=1)) == "exactly 1 CPUs asked; the host reports no count"
