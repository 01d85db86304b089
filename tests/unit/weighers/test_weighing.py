# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 1 to 3, 5 and 6: from raw numbers to the order of preference."""

import random
from collections import Counter

import numpy as np
import pytest

from roost.errors import PluginFailed
from roost.model.decision import Scores
from roost.plugins.registry import WEIGHERS
from roost.scheduler.full_scan import Term, keys_of, weigh, weight_of
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import Choice
from roost.testing import make_hosts, make_spec
from roost.weighers import BaseHostWeigher, HostWeigher, WeighedHost, Weigher, all_weighers, normalise
from roost.weighers.cpu import CPUWeigher
from roost.weighers.disk import DiskWeigher
from roost.weighers.ram import RAMWeigher


class FreeMemory(HostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        return host_state.free_ram_mb


class IoOps(HostWeigher):
    """As nova's IoOpsWeigher, in nova's shape."""

    minval = 0

    def weight_multiplier(self, host_state):
        return -1.0

    def _weigh_object(self, host_state, weight_properties):
        return host_state.num_io_ops


def weights(hosts, *weighers, spec=None):
    return weigh(hosts, weighers, spec or make_spec()).weights.tolist()


def scores(hosts, *weighers):
    """Of each host, its score by weigher."""
    weighed = weigh(hosts, weighers, make_spec(memory_mb=512))
    return [Scores(*parts) for _, _, parts in weighed.noted(range(len(hosts)))]


def order(hosts, weighers, choice=None, seed=0):
    """Host names in order of preference: the chosen one, then all others as its alternates."""
    pipeline = Pipeline([], weighers, choice, checks_capacity=False)
    randomness = None if seed is None else random.Random(seed)
    decision = pipeline.place(
        hosts.copy(), make_spec(), ["i1"], randomness=randomness, clock=lambda: 0, alternates=len(hosts)
    )
    (selection,) = decision.selections
    return [selection.host, *(each.host for each in selection.alternates)]


# --- normalise (2.2) ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "minval", "maxval", "expected"),
    [
        pytest.param([], None, None, [], id="empty"),
        pytest.param([1, 2, 3], None, None, [0.0, 0.5, 1.0], id="between their own extremes"),
        pytest.param([5, 5, 5], None, None, [0.0, 0.0, 0.0], id="all equal without bounds: 0 each"),
        pytest.param([512, 2048, 8192], 0, None, [0.0625, 0.25, 1.0], id="from 0"),
        pytest.param([2048, 2048], 0, None, [1.0, 1.0], id="all equal above the bound: 1 each"),
        pytest.param([0, 0], 0, None, [0.0, 0.0], id="all at the bound"),
        pytest.param([1, 2], None, 4, [0.0, 1 / 3], id="up to 4"),
        pytest.param([1, 2], 0, 4, [0.25, 0.5], id="between both bounds"),
        pytest.param([1, 2], 3, 3, [0.0, 0.0], id="bounds without a spread"),
        pytest.param([-1.5, 2.0], None, None, [0.0, 1.0], id="negative numbers"),
    ],
)
def test_normalise(raw, minval, maxval, expected):
    assert normalise(np.array(raw, dtype=float), minval, maxval).tolist() == expected


# --- the algorithm (2.1, 2.3) ------------------------------------------------------------------------


@pytest.mark.parametrize(("io_ops", "expected"), [([3, 3], [-1.0, -1.0]), ([0, 2, 4], [0.0, -0.5, -1.0])])
def test_worked_examples_of_io_operations(io_ops, expected):
    assert weights(make_hosts(num_io_ops=io_ops), IoOps()) == expected


def test_a_weigher_without_bounds_gives_equal_hosts_0():
    assert weights(make_hosts(free_ram_mb=[2048, 2048]), FreeMemory()) == [0.0, 0.0]


@pytest.mark.parametrize("count", [0, 1])
def test_a_single_host_is_not_weighed(count):
    class Raising(HostWeigher):
        def _weigh_object(self, host_state, weight_properties):
            raise AssertionError("asked")

    assert weights(make_hosts(count), Raising()) == [0.0] * count


def test_the_bounds_of_one_request_do_not_stick_to_the_next():
    weigher = RAMWeigher()
    weights(make_hosts(free_ram_mb=[102400, 1]), weigher)
    assert weights(make_hosts(free_ram_mb=[2048, 4096]), weigher) == [0.5, 1.0]


def test_weights_are_summed_and_neither_bounded_nor_positive():
    hosts = make_hosts(free_ram_mb=[0, 8192], num_io_ops=[4, 0])
    heavy = RAMWeigher(RAMWeigher.Options(ram_weight_multiplier=1000.0))
    assert weights(hosts, heavy, IoOps()) == [-1.0, 1000.0]


@pytest.mark.parametrize("low", [0.0, 0.1, -7.3])
@pytest.mark.parametrize("multipliers", [1.0, -1.0, 0.3, np.array([1.0, 2.0, -0.1, 3.3])])
def test_weights_of_many_hosts_are_those_of_each_host_to_the_bit(low, multipliers):
    numbers, rows = np.array([0.1, 3.0, 0.7, 1e15 / 3]), np.array([3, 1])
    terms, before = [Term(0, low, 0.7, multipliers), Term(0, 0.0, 3.0, -0.1)], numbers.copy()
    expected = [-weight_of(terms, [number], row) for row, number in enumerate(numbers.tolist())]
    assert keys_of(terms, {0: numbers}, 4).tolist() == expected
    assert keys_of(terms, {0: numbers[rows]}, 2, rows).tolist() == [expected[3], expected[1]]
    assert (numbers == before).all()


def test_without_weighers_hosts_keep_their_order():
    assert order(make_hosts(host=["b", "a", "c"]), []) == ["a", "b", "c"]


def test_each_weigher_shows_raw_number_normalised_number_and_multiplier():
    hosts = make_hosts(free_ram_mb=[-512, 2048, 8192], aggregates=[[], [{"ram_weight_multiplier": "-2"}], []])
    score = scores(hosts, RAMWeigher())[1]["RAMWeigher"]
    assert (score.raw, score.normalised, score.multiplier, score.contribution) == (2048.0, 0.25, -2.0, -0.5)


# --- equal weights, subset, shuffle (2.4, 5) ---------------------------------------------------------

WORKED = make_hosts(
    host=["h1", "h2", "h3"],
    free_ram_mb=[4096, 8192, 2048],
    vcpus_total=[16, 8, 32],
    cpu_allocation_ratio=1.0,
    free_disk_mb=[51200, 102400, 102400],
)
STOCK = [RAMWeigher(), CPUWeigher(), DiskWeigher()]


def test_the_full_worked_example():
    weighed = weigh(WORKED, STOCK, make_spec())
    found = scores(WORKED, *STOCK)
    assert {name: [each[name].normalised for each in found] for name in found[0]} == {
        "RAMWeigher": [0.5, 1.0, 0.25],
        "CPUWeigher": [0.5, 0.25, 1.0],
        "DiskWeigher": [0.5, 1.0, 1.0],
    }
    assert weighed.weights.tolist() == [1.5, 2.25, 2.25]


def test_equal_weights_keep_the_order_of_the_hosts():
    assert order(WORKED, STOCK) == ["h2", "h3", "h1"]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_best_few_are_the_start_of_the_full_order(depth):
    best = weigh(WORKED, STOCK, make_spec()).best(depth).tolist()
    assert [WORKED.names[at][0] for at in best] == ["h2", "h3", "h1"][:depth]


def test_equal_weights_among_many_keep_the_order_of_the_hosts():
    names = [f"h{number:02}" for number in range(40)]
    hosts = make_hosts(host=names, free_ram_mb=[number % 4 for number in range(40)])
    weighed = weigh(hosts, [RAMWeigher()], make_spec())
    assert weighed.best(40).tolist() == sorted(range(40), key=lambda at: -(at % 4))
    assert weighed.best(16).tolist() == weighed.best(40).tolist()[:16]


def test_shuffling_swaps_equals_half_the_time_and_leaves_the_rest_alone():
    firsts = Counter(tuple(order(WORKED, STOCK, Choice(shuffles_best=True), seed)) for seed in range(1000))
    assert set(firsts) == {("h2", "h3", "h1"), ("h3", "h2", "h1")}
    assert 450 <= firsts["h2", "h3", "h1"] <= 550


def test_shuffling_a_single_best_host_changes_nothing():
    hosts = make_hosts(host=["a", "b", "c"], free_ram_mb=[1, 3, 2])
    orders = {tuple(order(hosts, [RAMWeigher()], Choice(shuffles_best=True), seed)) for seed in range(20)}
    assert orders == {("b", "c", "a")}


def test_only_exactly_equal_weights_are_shuffled():
    hosts = make_hosts(host=["a", "b"], free_ram_mb=[10**15, 10**15 - 1])
    orders = {tuple(order(hosts, [RAMWeigher()], Choice(shuffles_best=True), seed)) for seed in range(20)}
    assert orders == {("a", "b")}


def test_a_subset_of_3_puts_each_host_first_a_third_of_the_time_and_the_others_in_order():
    orders = Counter(tuple(order(WORKED, STOCK, Choice(host_subset_size=3), seed)) for seed in range(3000))
    assert set(orders) == {("h2", "h3", "h1"), ("h3", "h2", "h1"), ("h1", "h2", "h3")}
    assert all(900 <= count <= 1100 for count in orders.values())


def test_a_subset_larger_than_the_list_means_all_of_it():
    firsts = {order(WORKED, STOCK, Choice(host_subset_size=100), seed)[0] for seed in range(50)}
    assert firsts == {"h1", "h2", "h3"}


def test_hosts_beyond_the_subset_are_never_first():
    firsts = {order(WORKED, STOCK, Choice(host_subset_size=2), seed)[0] for seed in range(50)}
    assert firsts == {"h2", "h3"}


def test_a_subset_of_1_needs_no_randomness():
    assert order(WORKED, STOCK, Choice(), seed=None) == ["h2", "h3", "h1"]


# --- multipliers per aggregate (3) -------------------------------------------------------------------


def test_the_worked_example_of_aggregate_multipliers():
    hosts = make_hosts(
        host=["A", "B"],
        free_ram_mb=[2048, 4096],
        aggregates=[
            [{"ram_weight_multiplier": "2"}, {"ram_weight_multiplier": "-1.5"}],
            [{"ram_weight_multiplier": "bogus"}],
        ],
    )
    assert weights(hosts, RAMWeigher()) == [-0.75, 1.0]


@pytest.mark.parametrize(
    ("values", "multiplier"),
    [
        pytest.param([], 7.0, id="none: the configured one"),
        pytest.param(["2"], 2.0, id="one"),
        pytest.param(["2", "-1.5"], -1.5, id="the smallest number"),
        pytest.param(["10", "9"], 9.0, id="as a number, not as text"),
        pytest.param(["bogus", "2"], 7.0, id="one bad value spoils all: the configured one"),
        pytest.param([" 3 "], 3.0, id="blanks around"),
        pytest.param(["2,3"], 7.0, id="not split at commas"),
        pytest.param([""], 7.0, id="empty"),
        pytest.param(["1e3"], 1000.0, id="any float"),
        pytest.param(["0"], 0.0, id="zero is a number"),
    ],
)
def test_the_multiplier_of_a_host_in_these_aggregates(values, multiplier):
    hosts = make_hosts(aggregates=[[{"ram_weight_multiplier": value} for value in values], []])
    weigher = RAMWeigher(RAMWeigher.Options(ram_weight_multiplier=7.0))
    found = np.broadcast_to(weigher.multipliers(hosts), 2)
    assert found.tolist() == [multiplier, 7.0]


# --- people's own weighers (1, 6) --------------------------------------------------------------------


def test_both_names_of_the_base_are_the_same_class():
    assert BaseHostWeigher is HostWeigher


def test_the_multiplier_is_1_where_a_weigher_says_nothing():
    assert weights(make_hosts(free_ram_mb=[1, 2]), FreeMemory()) == [0.0, 1.0]


def test_weight_multiplier_may_be_written_without_the_host():
    class Old(FreeMemory):
        def weight_multiplier(self):
            return 3

    assert weights(make_hosts(free_ram_mb=[1, 2]), Old()) == [0.0, 3.0]


def test_weight_multiplier_with_the_host_is_asked_for_each():
    class PerHost(FreeMemory):
        def weight_multiplier(self, host_state):
            return {"a": 5.0, "b": 7.0}[host_state.host]

    hosts = make_hosts(host=["a", "b"], free_ram_mb=[2, 4])
    assert weights(hosts, type("P", (PerHost,), {"minval": 0})()) == [2.5, 7.0]


def test_the_request_reads_by_attribute_and_as_filter_properties():
    class Both(HostWeigher):
        def _weigh_object(self, host_state, weight_properties):
            return weight_properties.flavor.memory_mb + weight_properties["instance_type"]["memory_mb"]

    assert [each["Both"].raw for each in scores(make_hosts(2), Both())] == [1024.0, 1024.0]


@pytest.mark.parametrize(
    ("bounds", "raw", "normalised"),
    [
        ({"minval": 0}, [0.0, 2.0, 8.0], [0.0, 0.25, 1.0]),
        ({"maxval": 4}, [-4.0, 2.0, 4.0], [0.0, 0.75, 1.0]),
        ({"minval": 0, "maxval": 4}, [0.0, 2.0, 4.0], [0.0, 0.5, 1.0]),
    ],
)
def test_minval_and_maxval_pull_raw_numbers_in_and_are_the_ends_of_the_scale(bounds, raw, normalised):
    weigher = type("Bounded", (FreeMemory,), bounds)()
    found = [each["Bounded"] for each in scores(make_hosts(free_ram_mb=[-4, 2, 8]), weigher)]
    assert ([each.raw for each in found], [each.normalised for each in found]) == (raw, normalised)


def test_weigh_objects_may_be_overridden_to_see_all_hosts_together():
    class Ranks(HostWeigher):
        def weigh_objects(self, weighed_obj_list, weight_properties):
            free = sorted(each.obj.free_ram_mb for each in weighed_obj_list)
            return [free.index(each.obj.free_ram_mb) for each in weighed_obj_list]

    assert weights(make_hosts(free_ram_mb=[30, 1, 2000]), Ranks()) == [0.5, 0.0, 1.0]


def test_overriding_weigh_objects_overrides_the_clamping_but_not_the_scale():
    class Own(HostWeigher):
        minval = 0

        def weigh_objects(self, weighed_obj_list, weight_properties):
            return [-4, 8]

    assert weights(make_hosts(2), Own()) == [-0.5, 1.0]


def test_weighed_hosts_start_at_0_and_know_their_name():
    seen = []

    class Looks(FreeMemory):
        def weigh_objects(self, weighed_obj_list, weight_properties):
            seen.extend(each.to_dict() for each in weighed_obj_list)
            return super().weigh_objects(weighed_obj_list, weight_properties)

    weights(make_hosts(host=["a", "b"]), Looks())
    assert seen == [{"weight": 0.0, "host": "a"}, {"weight": 0.0, "host": "b"}]


def test_a_weighed_host_is_its_host_and_its_weight():
    (host,) = make_hosts(1, host="a")
    weighed = WeighedHost(host, 2.5)
    assert (weighed.obj, weighed.weight) == (host, 2.5)


def failing(method, answer):
    """A weigher one of whose methods gives this answer on host b, or raises it."""

    def give(self, host_state, *arguments):
        if host_state.host != "b":
            return 1.0
        if isinstance(answer, Exception):
            raise answer
        return answer

    return type("Failing", (FreeMemory,), {method: give})()


@pytest.mark.parametrize("method", ["_weigh_object", "weight_multiplier"])
@pytest.mark.parametrize(
    ("answer", "cause"), [(None, "TypeError"), ("many", "ValueError"), (KeyError("zone"), "KeyError: 'zone'")]
)
def test_a_weigher_that_gives_no_number_fails_the_request_with_plugin_and_host(method, answer, cause):
    with pytest.raises(PluginFailed, match=f"^Failing failed on host b: {cause}") as caught:
        weights(make_hosts(host=["a", "b", "c"]), failing(method, answer))
    assert (caught.value.plugin, caught.value.host) == ("Failing", "b")


def test_weigh_objects_that_gives_none_for_a_host_fails_the_request_with_plugin_and_host():
    class Nones(HostWeigher):
        def weigh_objects(self, weighed_obj_list, weight_properties):
            return [1.0, None]

    with pytest.raises(PluginFailed, match=r"^Nones failed on host b: TypeError"):
        weights(make_hosts(host=["a", "b"]), Nones())


@pytest.mark.parametrize("numbers", [[1.0], [1.0, 2.0, 3.0], []])
def test_weigh_objects_with_another_count_than_hosts_fails_the_request(numbers):
    class Miscounts(HostWeigher):
        def weigh_objects(self, weighed_obj_list, weight_properties):
            return numbers

    with pytest.raises(PluginFailed, match=f"Miscounts failed: ValueError: {len(numbers)} weights for 2 hosts"):
        weights(make_hosts(2), Miscounts())


def test_weigh_objects_that_raises_fails_the_request_with_the_plugin():
    class Broken(HostWeigher):
        def weigh_objects(self, weighed_obj_list, weight_properties):
            raise KeyError("zone")

    with pytest.raises(PluginFailed, match=r"^Broken failed: KeyError: 'zone'$"):
        weights(make_hosts(2), Broken())


def test_a_weight_multiplier_without_the_host_that_raises_fails_the_request_with_the_plugin():
    class Broken(FreeMemory):
        def weight_multiplier(self):
            raise KeyError("zone")

    with pytest.raises(PluginFailed, match=r"^Broken failed: KeyError: 'zone'$"):
        weights(make_hosts(2), Broken())


def test_a_weigher_on_columns_that_raises_fails_the_request_with_the_plugin():
    class Columns(Weigher):
        def weigh(self, hosts, spec):
            return hosts.column("no_such_column")

    with pytest.raises(PluginFailed, match=r"^Columns failed: KeyError: 'no_such_column'$"):
        weights(make_hosts(2), Columns())


def test_a_weigher_on_columns_with_too_few_numbers_fails_the_request_with_the_plugin():
    class TooFew(Weigher):
        def weigh(self, hosts, spec):
            return np.ones(1)

    with pytest.raises(PluginFailed, match=r"^TooFew failed: ValueError: 1 weights for 2 hosts$"):
        weights(make_hosts(2), TooFew())


def test_all_weighers_gives_every_built_in():
    assert all_weighers() == list(WEIGHERS)


# --- plugins -----------------------------------------------------------------------------------------


class Counted(Weigher):
    """A weigher whose parts note when they are called."""

    def __init__(self, log, factor=1.0):
        super().__init__()
        self.log, self.factor = log, factor

    def multiplier(self):
        self.log.append("multiplier")
        return self.factor

    def weigh(self, hosts, spec):
        self.log.append("numbers")
        return np.arange(len(hosts))


def test_each_weigher_is_asked_for_multiplier_and_numbers_before_the_next_one():
    log = []
    weigh(make_hosts(3), [Counted(log), Counted(log)], make_spec())
    assert log == ["multiplier", "numbers"] * 2


def test_a_multiplier_may_be_a_whole_number():
    weighed = weigh(make_hosts(3), [Counted([], 2)], make_spec())
    assert weighed.weights.tolist() == [0.0, 1.0, 2.0]
    ((_, _, (_, _, _, multipliers)),) = weighed.noted([1])
    assert multipliers == (2.0,)


def test_a_pinned_extreme_that_is_no_number_is_an_error_of_its_weigher():
    class Pinned(Counted):
        minval = "low"

    with pytest.raises(PluginFailed, match=r"^Pinned failed: "):
        weigh(make_hosts(3), [Pinned([])], make_spec())
