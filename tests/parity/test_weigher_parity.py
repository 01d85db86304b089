# SPDX-License-Identifier: Apache-2.0
"""Every weigher against its plain rule, on generated hosts and requests: the same numbers, the same errors."""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.parity import plain_weighers
from tests.parity.plain_weighers import MetricNotFound

from roost.errors import RuleError
from roost.hosts import HostRecord, HostTable, Instance
from roost.hosts.pci import pools_from_json
from roost.model import Aggregate, Destination, ServerGroup
from roost.model.decision import Scores
from roost.plugins.registry import WEIGHERS
from roost.scheduler.full_scan import weigh
from roost.testing import make_spec
from roost.testing.strategies.hosts import RATIOS, UUIDS
from roost.testing.strategies.numa_pci import DEVICES
from roost.testing.strategies.requests import IMAGE_PROPERTIES

LOOPS = plain_weighers.WEIGHERS
BY_NAME = {each.__name__: each for each in WEIGHERS}
COMPARED = sorted(set(LOOPS) & set(BY_NAME))
MANY = settings(max_examples=200, deadline=None, database=None)

# --- what is generated -------------------------------------------------------------------------------

few = st.sampled_from
POOLS = st.lists(
    st.builds(lambda kind, count: kind | {"count": count}, few(DEVICES), few([0, 1, 4, 50, 98, 99, 150])), max_size=2
).map(pools_from_json)
METRICS = st.none() | st.dictionaries(
    few(["foo", "bar", "cpu.frequency"]), few([0, 1, 7, -50, 512, 2400, 0.1, 1e9]), max_size=3
).map(lambda held: tuple({"name": name, "value": value} for name, value in held.items()))
SEEN_PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "os_distro": few(["windows", "linux"]),
        "hw_boot_menu": few(["True", "False"]),
        "hw_cpu_cores": few(["4", "8"]),
        "img_hv_type": few(["kvm", "xapi", "qemu"]),
        "other": few(["1"]),
    },
)
INSTANCES = st.dictionaries(few(UUIDS), SEEN_PROPERTIES, max_size=4).map(
    lambda held: tuple(Instance(uuid, image_props=properties) for uuid, properties in held.items())
)
GROUPS = st.builds(
    ServerGroup,
    policy=few(["soft-affinity", "soft-anti-affinity", "soft-affinity", "soft-anti-affinity", "affinity", None]),
    members=st.lists(few(UUIDS), unique=True, min_size=2).map(tuple),
)
MULTIPLIERS = few(["2", "-1.5", "0", "0.1", " 3 ", "1e6", "bogus", "", "1,2"])
RECORDS = {
    "cell": few(["cell1", "cell2"]),
    "total_usable_ram_mb": few([0, 4096, 8192]),
    "total_usable_disk_gb": few([0, 50, 99]),
    "free_ram_mb": st.integers(-1024, 4096),
    "free_disk_mb": st.integers(-2048, 51200),
    "vcpus_total": st.integers(0, 8),
    "vcpus_used": st.integers(0, 20),
    "cpu_allocation_ratio": RATIOS,
    "num_instances": st.integers(0, 60),
    "num_io_ops": st.integers(-1, 10),
    "failed_builds": few([0, 0, 1, 3, 4]),
    "hypervisor_version": few([0, 6002000, 6002001, 7000000]),
    "metrics": METRICS,
    "pci_pools": POOLS,
    "instances": INSTANCES,
}


IN_USE = [
    *("vcpus_total", "vcpus_used", "cpu_allocation_ratio"),
    *("total_usable_ram_mb", "free_ram_mb", "total_usable_disk_gb", "free_disk_mb"),
]
READ = {
    "BalanceWeigher": IN_USE,
    "BestFitWeigher": IN_USE,
    "BuildFailureWeigher": ["failed_builds"],
    "CPUWeigher": ["vcpus_total", "vcpus_used", "cpu_allocation_ratio"],
    "CrossCellWeigher": ["cell"],
    "DiskWeigher": ["free_disk_mb"],
    "HypervisorVersionWeigher": ["hypervisor_version"],
    "ImagePropertiesWeigher": ["instances"],
    "IoOpsWeigher": ["num_io_ops"],
    "MetricsWeigher": ["metrics"],
    "NumInstancesWeigher": ["num_instances"],
    "PCIWeigher": ["pci_pools"],
    "RAMWeigher": ["free_ram_mb"],
    "ServerGroupSoftAffinityWeigher": ["instances"],
    "ServerGroupSoftAntiAffinityWeigher": ["instances"],
    "StackWeigher": IN_USE,
}
"""What varies from host to host when one weigher is looked at."""


@st.composite
def tables(draw, names, min_size=1):
    """Hosts that differ in what these weighers read and share three aggregates, which set some multipliers."""
    metadata = st.fixed_dictionaries({}, optional={LOOPS[name].key: MULTIPLIERS for name in names})
    pool = [Aggregate(f"agg{number}", draw(metadata), id=number) for number in range(1, 4)]
    record = {column: RECORDS[column] for name in names for column in READ[name]}
    record["aggregates"] = st.lists(few(pool), unique_by=lambda each: each.id, max_size=3).map(tuple)
    rows = draw(st.lists(st.fixed_dictionaries(record), min_size=min_size, max_size=6))
    return HostTable.of(HostRecord(host=f"host{at // 2}", node=f"n{at % 2}", **row) for at, row in enumerate(rows))


DESTINATIONS = st.builds(
    Destination, cell=few([None, "cell1", "cell2", "cell9"]), allow_cross_cell_move=few([True, True, False])
)
SPECS = st.builds(
    make_spec,
    vcpus=st.integers(0, 4),
    instance_group=st.none() | GROUPS,
    image=st.none() | IMAGE_PROPERTIES,
    requested_destination=st.none() | DESTINATIONS,
)
SIZES = {"vcpus": st.integers(0, 4), "memory_mb": few([0, 256, 1024]), "root_gb": few([0, 1, 10])}
ASKED = {
    "BalanceWeigher": SIZES,
    "BestFitWeigher": SIZES,
    "CrossCellWeigher": {"requested_destination": DESTINATIONS},
    "ImagePropertiesWeigher": {"image": IMAGE_PROPERTIES},
    "ServerGroupSoftAffinityWeigher": {"instance_group": GROUPS},
    "ServerGroupSoftAntiAffinityWeigher": {"instance_group": GROUPS},
}
"""What varies from request to request when one weigher is looked at; nothing for most."""

ANY = few([0.0, 1.0, -1.0, 0.1, -1.5, 3.0, 1e6])
NOT_NEGATIVE = few([0.0, 1.0, 0.1, 3.0])
BOUNDED = {"pci_weight_multiplier", "soft_affinity_weight_multiplier", "soft_anti_affinity_weight_multiplier"}
METRIC_SETTINGS = st.lists(
    few(["foo=1.0", "bar=-2", "foo=0", "cpu.frequency=0.1", "bar=0.3", "nonsense", "=1", "foo=1=2", "foo =1"]),
    max_size=3,
).map(tuple)
IMAGE_SETTINGS = few(
    [(), ("os_distro=0.1",), ("os_distro=2", "hw_boot_menu=-0.7", "bad"), ("img_hv_type=1", "hw_cpu_cores=0.3")]
)
MORE_OPTIONS = {
    "ImagePropertiesWeigher": {"image_props_weight_setting": IMAGE_SETTINGS},
    "MetricsWeigher": {
        "weight_setting": METRIC_SETTINGS,
        "required": few([False, False, True]),
        "weight_of_unavailable": few([-10000.0, 0.0, 0.1]),
    },
}


def options_of(name):
    option = LOOPS[name].option
    multiplier = {option: NOT_NEGATIVE if option in BOUNDED else ANY}
    return st.builds(BY_NAME[name].Options, **multiplier, **MORE_OPTIONS.get(name, {}))


@st.composite
def options_of_all(draw):
    """All stock weighers in some order, with their options."""
    return {name: draw(options_of(name)) for name in draw(st.permutations(COMPARED))}


# --- comparing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMPARED)
def test_raw_numbers_and_multipliers_are_those_of_the_plain_rule_host_by_host(name):
    rule, plugin, seen = LOOPS[name], BY_NAME[name], set()

    @MANY
    @given(
        table=tables([name]),
        spec=st.builds(make_spec, **ASKED.get(name, {})),
        options=options_of(name),
        data=st.data(),
    )
    def compare(table, spec, options, data):
        rows = data.draw(st.permutations(range(len(table))))
        hosts, objects = table.in_the_running().take(rows), plain_weighers.plain_hosts(table)
        objects = [objects[row] for row in rows]
        weigher = plugin(options)
        multipliers = np.broadcast_to(weigher.multipliers(hosts), len(table)).tolist()
        assert multipliers == [plain_weighers.multiplier(host, rule, options) for host in objects]
        missing = missing_metrics(rule, objects, spec, options)
        if missing:
            event("raises")
            with pytest.raises(RuleError) as caught:
                weigher.weigh(hosts, spec)
            assert caught.value.nova_type == "ComputeHostMetricNotFound"
            assert any(f"host {host} reports no metric {metric}" in str(caught.value) for host, metric in missing)
            return
        expected = [rule.raw(host, spec, options) for host in objects]
        seen.update(expected)
        assert weigher.weigh(hosts, spec).tolist() == expected

    compare()
    assert len(seen) > 2, "what is generated says little"


def missing_metrics(rule, objects, spec, options):
    """(host, metric) for every host at which the plain rule gives up."""
    found = []
    for host in objects:
        try:
            rule.raw(host, spec, options)
        except MetricNotFound as error:
            found.append((error.host, error.metric))
    return found


@MANY
@given(table=tables(COMPARED, min_size=2), spec=SPECS, options=options_of_all())
def test_the_sum_of_all_weighers_is_that_of_the_plain_formula_to_the_last_bit(table, spec, options):
    weighers = [BY_NAME[name](chosen) for name, chosen in options.items()]
    try:
        expected = plain_weighers.weights(plain_weighers.plain_hosts(table), spec, options)
    except MetricNotFound:
        event("raises")
        with pytest.raises(RuleError):
            weigh(table.in_the_running(), weighers, spec)
        return
    found = weigh(table.in_the_running(), weighers, spec).weights.tolist()
    event("spread" if len(set(found)) > 1 else "all equal")
    assert [each.hex() for each in found] == [each.hex() for each in expected]


@settings(max_examples=30, deadline=None)
@given(table=tables(COMPARED), spec=SPECS, options=options_of_all())
def test_a_single_host_is_weighed_by_nobody_and_misses_nothing(table, spec, options):
    weighers = [BY_NAME[name](chosen) for name, chosen in options.items()]
    weighed = weigh(table.in_the_running().take(np.array([0])), weighers, spec)
    assert weighed.weights.tolist() == plain_weighers.weights(plain_weighers.plain_hosts(table)[:1], spec, options)
    assert dict(Scores(*weighed.noted([0])[0][2])) == {}


def test_every_registered_weigher_has_a_plain_rule_and_is_compared_with_it():
    names = set(BY_NAME)
    assert names - set(LOOPS) == set(), "write the rule as a plain loop in tests/parity/plain_weighers.py"
    assert set(LOOPS) - names == set()
    assert set(READ) == set(LOOPS), "say in READ what its hosts vary in"


@pytest.mark.parametrize("name", COMPARED)
def test_bounds_options_and_keys_are_those_of_the_specification(name):
    rule, plugin = LOOPS[name], BY_NAME[name]
    assert (plugin.minval, plugin.maxval) == (rule.minval, None)
    assert (plugin.multiplier_option, plugin.aggregate_key) == (rule.option, rule.key)
