# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import itertools
import pickle

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from roost.errors import FieldError, RoostError
from roost.hosts.encoded import Encoded
from roost.hosts.numa import NumaUsageError, fit, record_usage, release_usage, topology_reason
from roost.hosts.numa_cells import (
    HostCell,
    HostTopology,
    OvercommitLimits,
    PagePool,
    has_threads,
    host_topology_from_json,
)
from roost.model.cpu_policy import ANY, LARGE, SMALL
from roost.model.flavor import Flavor
from roost.model.numa import InstanceCell, InstanceTopology, derive_topology
from roost.model.request import NetworkMetadata

EQUAL = OvercommitLimits(1.0, 1.0)
GIB = 1048576
"""KiB."""


def host_cell(number=0, cpus=2, memory=1024, **fields):
    """A cell in the legacy style: the same CPUs for shared and for dedicated guests."""
    ids = frozenset(range(100 * number, 100 * number + cpus))
    return HostCell(number, ids, ids, memory, **fields)


def dedicated_cell(number=0, cpus=2, memory=1024, **fields):
    """A cell in the new style, with dedicated CPUs only."""
    return dataclasses.replace(host_cell(number, cpus, memory, **fields), cpuset=frozenset())


def host(*cells):
    return HostTopology(cells)


def shared(cpus, memory, pagesize=None, number=0):
    return InstanceCell(number, frozenset(range(cpus)), frozenset(), memory, pagesize)


def pinned(cpus, memory=64, pagesize=None, threads=None, number=0):
    return InstanceCell(number, frozenset(), frozenset(range(cpus)), memory, pagesize, "dedicated", threads)


def guest(*cells, emulator=None):
    return InstanceTopology(cells, emulator)


def ids(fitted):
    return None if fitted is None else [cell.id for cell in fitted.cells]


# --- 3.1: the search ------------------------------------------------------------------------------


def test_a_host_needs_as_many_cells_as_the_instance():
    assert fit(host(host_cell()), guest(shared(1, 1), shared(1, 1, number=1)), None) is None


def test_spreading_takes_the_cell_with_most_free_memory():
    cells = host_cell(0, memory_usage=512), host_cell(1)
    assert ids(fit(host(*cells), guest(shared(1, 256)), None)) == [1]
    assert ids(fit(host(*cells), guest(shared(1, 256)), None, packs=True)) == [0]


def test_the_cpu_sort_dominates_the_memory_sort():
    cells = host_cell(0, memory=2048, cpu_usage=2), host_cell(1, cpu_usage=1)
    assert ids(fit(host(*cells), guest(shared(1, 256)), None)) == [1]
    assert ids(fit(host(*cells), guest(shared(1, 256)), None, packs=True)) == [0]


def test_pinned_instances_go_by_free_dedicated_cpus():
    cells = host_cell(0, cpus=4, pinned_cpus=frozenset({0, 1})), host_cell(1, cpus=3, cpu_usage=9)
    assert ids(fit(host(*cells), guest(pinned(1)), None)) == [1]
    assert ids(fit(host(*cells), guest(pinned(1)), None, packs=True)) == [0]


@pytest.mark.parametrize("packs", [False, True])
def test_free_devices_matter_most_whether_it_packs_or_not(packs):
    cells = host(host_cell(0, cpu_usage=1), host_cell(1, memory_usage=512), host_cell(2))
    devices = {0: 4, 1: 2}
    options = {"packs": packs, "free_devices_per_cell": devices}
    assert ids(fit(cells, guest(shared(1, 256)), None, asks_devices=True, **options)) == [0]
    assert ids(fit(cells, guest(shared(1, 256)), None, asks_devices=False, **options)) == [2]


def test_ties_keep_the_order_of_the_host():
    cells = host(host_cell(2), host_cell(0), host_cell(1))
    for packs in (False, True):
        assert ids(fit(cells, guest(shared(1, 256)), None, packs=packs)) == [2]


def test_cells_are_not_sorted_where_all_of_them_are_needed():
    cells = host(host_cell(0, memory_usage=512), host_cell(1))
    assert ids(fit(cells, guest(shared(1, 256), shared(1, 256)), None)) == [0, 1]


def test_places_are_tried_in_lexicographic_order():
    cells = host(host_cell(0), host_cell(1), host_cell(2))
    assert ids(fit(cells, guest(shared(1, 256), shared(1, 256)), None)) == [0, 1]


def test_devices_are_asked_about_the_chosen_cells_in_the_instances_order():
    cells = host(host_cell(0), host_cell(1), host_cell(2))
    asked = []

    def devices_fit(chosen):
        asked.append(chosen)
        return 2 in chosen and 1 in chosen

    assert ids(fit(cells, guest(shared(1, 256), shared(1, 256)), None, devices_fit=devices_fit)) == [1, 2]
    assert asked == [(0, 1), (0, 2), (1, 2)]


def test_only_the_first_instance_cell_carries_the_emulator():
    cells = host(host_cell(0, cpus=2), host_cell(1, cpus=3))
    fitted = fit(cells, guest(pinned(2), pinned(2), emulator="isolate"), None)
    assert ids(fitted) == [1, 0]
    assert [each.cpuset_reserved for each in fitted.cells] == [{102}, frozenset()]


def test_the_instance_itself_is_left_as_it_is():
    wanted = guest(pinned(2, pagesize=ANY))
    cells = host(host_cell(7, mempages=(PagePool(4, 262144),)))
    fitted = fit(cells, wanted, None)
    assert fitted.cells[0] == InstanceCell(
        7, frozenset(), frozenset({0, 1}), 64, 4, "dedicated", None, ((0, 700), (1, 701))
    )
    assert wanted == guest(pinned(2, pagesize=ANY))


def test_sixteen_host_cells_without_any_way_are_searched_quickly():
    cells = host(*(host_cell(number, cpus=1) for number in range(16)))
    wanted = guest(*(shared(1, 64) for _ in range(7)), shared(2, 64))
    assert fit(cells, wanted, None) is None
    wanted = guest(*(shared(1, 64) for _ in range(8)))
    assert fit(cells, wanted, None, devices_fit=lambda chosen: False) is None


# --- 3.2: one pair of cells -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "wanted", "limits", "fits"),
    [
        (host_cell(), shared(3, 512), OvercommitLimits(16, 1.5), False),  # would compete with itself
        (host_cell(), shared(1, 2048), OvercommitLimits(16, 4.0), False),
        (host_cell(memory_usage=1024), shared(1, 512), OvercommitLimits(16, 1.5), True),  # 1536 <= 1536
        (host_cell(memory_usage=1024), shared(1, 513), OvercommitLimits(16, 1.5), False),
        (host_cell(cpu_usage=1), shared(1, 64), EQUAL, True),
        (host_cell(cpu_usage=1), shared(2, 64), EQUAL, False),
        (host_cell(memory_usage=600), pinned(1, 512), OvercommitLimits(16, 10.0), False),  # no overcommit
        (host_cell(memory_usage=512), pinned(1, 512), OvercommitLimits(0.0, 0.0), True),  # nor ratios
        (host_cell(cpu_usage=99, memory_usage=9999), shared(2, 1024), None, True),  # no limits given
        (dedicated_cell(), shared(1, 64), None, False),
        (host_cell(), pinned(3), None, False),
        (host_cell(pinned_cpus=frozenset({0})), pinned(2), None, False),
        (host_cell(pinned_cpus=frozenset({0})), pinned(1), None, True),
    ],
)
def test_one_cell_on_one_cell(cell, wanted, limits, fits):
    assert (fit(host(cell), guest(wanted), limits) is not None) == fits


MIXED_HOST = HostCell(0, frozenset({0, 1}), frozenset({2, 3}), 1024)
MIXED = InstanceCell(0, frozenset({0}), frozenset({1}), 512, None, "mixed")


def test_a_mixed_cell_is_pinned_in_part():
    assert fit(host(MIXED_HOST), guest(MIXED), EQUAL).cells[0].cpu_pinning == ((1, 2),)


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({"cpu_usage": 1}, True),
        ({"cpu_usage": 2}, False),
        ({"memory_usage": 512}, True),
        ({"memory_usage": 513}, False),
        ({"pinned_cpus": frozenset({2, 3})}, False),
        ({"cpuset": frozenset()}, False),
    ],
)
def test_a_mixed_cell_keeps_both_the_limits_and_what_is_free(fields, fits):
    cells = host(dataclasses.replace(MIXED_HOST, **fields))
    assert (fit(cells, guest(MIXED), OvercommitLimits(1.0, 9.0)) is not None) == fits


# --- 3.3: page sizes ------------------------------------------------------------------------------

POOLS = (PagePool(4, 262144), PagePool(2048, 256, used=200))  # 1024 MB and 112 MB free


@pytest.mark.parametrize(
    ("asked", "of_64", "of_113", "of_114"),
    [
        (SMALL, 4, 4, 4),
        (LARGE, 2048, None, None),
        (ANY, 2048, 4, 4),
        (2048, 2048, None, None),
        (GIB, None, None, None),
    ],
)
def test_page_sizes(asked, of_64, of_113, of_114):
    cells = host(host_cell(mempages=POOLS))
    for memory, size in ((64, of_64), (113, of_113), (114, of_114)):
        fitted = fit(cells, guest(shared(1, memory, asked)), None)
        assert (fitted.cells[0].pagesize if fitted else None) == size


def test_the_order_in_which_pools_are_listed_means_nothing():
    cells = host(host_cell(mempages=tuple(reversed(POOLS))))
    assert fit(cells, guest(shared(1, 64, LARGE)), None).cells[0].pagesize == 2048
    assert fit(cells, guest(shared(1, 64, SMALL)), None).cells[0].pagesize == 4


def test_reserved_pages_are_not_free():
    cells = host(host_cell(mempages=(PagePool(2048, 64, used=16, reserved=16),)))
    assert fit(cells, guest(shared(1, 64, 2048)), None) is not None
    assert fit(cells, guest(shared(1, 66, 2048)), None) is None


@pytest.mark.parametrize("asked", [SMALL, LARGE, ANY, 4])
def test_a_page_size_needs_page_pools(asked):
    assert fit(host(host_cell()), guest(shared(1, 64, asked)), None) is None


def test_large_pages_need_a_second_size():
    assert fit(host(host_cell(mempages=(PagePool(2048, 512),))), guest(shared(1, 64, LARGE)), None) is None


def test_page_size_requests_never_overcommit():
    full = host(host_cell(mempages=(PagePool(4, 262144, used=262144),)))
    assert fit(full, guest(shared(1, 4, 4)), OvercommitLimits(16, 16)) is None


@pytest.mark.parametrize(
    ("wanted", "fits"), [(shared(1, 1024), True), (shared(1, 1025), False), (pinned(1, 4), False)]
)
def test_without_a_page_size_the_smallest_pool_counts(wanted, fits):
    full = host(host_cell(memory=4096, mempages=(PagePool(4, 262144, used=262144), PagePool(2048, 999))))
    fitted = fit(full, guest(wanted), None)
    assert (fitted is not None) == fits
    assert not fits or fitted.cells[0].pagesize is None


def test_without_a_page_size_memory_comes_in_whole_pages_too():
    cells = host(host_cell(mempages=(PagePool(2048, 512),)))
    assert fit(cells, guest(shared(1, 64)), None) is not None
    assert fit(cells, guest(shared(1, 65)), None) is None


# --- 3.4: pinning ---------------------------------------------------------------------------------

CORES = tuple(frozenset({core, core + 4}) for core in range(4))


def threaded(taken=(), **fields):
    """4 cores of 2 threads, {0,4} to {3,7}, legacy style."""
    return host(host_cell(cpus=8, siblings=CORES, pinned_cpus=frozenset(taken), **fields))


def pins(cells, count, threads=None, emulator=None):
    fitted = fit(cells, guest(pinned(count, threads=threads), emulator=emulator), None)
    return None if fitted is None else [host_cpu for _, host_cpu in fitted.cells[0].cpu_pinning]


@pytest.mark.parametrize(
    ("count", "prefer", "require", "isolate"),
    [
        (1, [0], [0], [0]),
        (2, [0, 4], [0, 4], [0, 1]),
        (3, [0, 4, 1], [0, 4, 1], [0, 1, 2]),
        (5, [0, 4, 1, 5, 2], [0, 4, 1, 5, 2], None),
        (8, [0, 4, 1, 5, 2, 6, 3, 7], [0, 4, 1, 5, 2, 6, 3, 7], None),
        (9, None, None, None),
    ],
)
def test_pinning_on_cores_of_two_threads(count, prefer, require, isolate):
    assert pins(threaded(), count) == prefer
    assert pins(threaded(), count, "prefer") == prefer
    assert pins(threaded(), count, "require") == require
    assert pins(threaded(), count, "isolate") == isolate


def test_prefer_takes_single_threads_where_no_core_is_free():
    assert pins(threaded({0, 1, 2, 3}), 2, "prefer") == [4, 5]
    assert pins(threaded({0, 1, 2, 3}), 2, "require") is None


def test_prefer_takes_whatever_is_free_in_the_end():
    assert pins(threaded({0, 2, 6, 3, 7}), 3, "prefer") == [4, 1, 5]


def test_require_needs_threads():
    plain = host(host_cell(cpus=4, siblings=tuple(frozenset({cpu}) for cpu in range(4))))
    assert pins(plain, 2, "require") is None
    assert pins(plain, 2, "prefer") == [0, 1]


def test_isolate_in_the_new_style_needs_a_host_without_threads():
    new_style = HostCell(0, frozenset({8}), frozenset(range(8)), 1024, siblings=CORES)
    assert pins(host(new_style), 2, "isolate") is None
    assert pins(host(dedicated_cell(cpus=4)), 2, "isolate") == [0, 1]


def test_isolate_takes_wholly_free_cores_only():
    assert pins(threaded({0, 1, 2}), 1, "isolate") == [3]
    assert pins(threaded({0, 1, 2}), 2, "isolate") is None


@pytest.mark.parametrize(("count", "chosen", "reserved"), [(2, [0, 4], {1}), (7, [0, 4, 1, 5, 2, 6, 3], {7})])
def test_isolated_emulator_threads_take_the_next_cpu(count, chosen, reserved):
    fitted = fit(threaded(), guest(pinned(count), emulator="isolate"), None).cells[0]
    assert [host_cpu for _, host_cpu in fitted.cpu_pinning] == chosen
    assert fitted.cpuset_reserved == reserved


def test_isolated_emulator_threads_need_a_cpu_more():
    assert pins(threaded(), 8, emulator="isolate") is None


def test_isolated_emulator_threads_of_an_isolated_guest_keep_off_its_cores():
    fitted = fit(threaded(), guest(pinned(3, threads="isolate"), emulator="isolate"), None).cells[0]
    assert fitted.cpuset_reserved == {3}
    assert pins(threaded(), 4, "isolate", emulator="isolate") is None


def test_cpus_of_which_no_siblings_are_known_are_cores_of_their_own():
    assert pins(host(host_cell(cpus=4)), 3) == [0, 1, 2]
    assert pins(host(host_cell(cpus=4)), 3, "isolate") == [0, 1, 2]
    partly = host(host_cell(cpus=4, siblings=(frozenset({2, 3}),)))
    assert pins(partly, 2, "require") == [2, 3]
    assert pins(partly, 4) == [2, 3, 0, 1]


def test_guest_cpus_are_pinned_in_ascending_order():
    wanted = InstanceCell(0, frozenset({0}), frozenset({5, 9, 1}), 64, None, "mixed")
    assert fit(threaded(), guest(wanted), None).cells[0].cpu_pinning == ((1, 0), (5, 4), (9, 1))


@pytest.mark.parametrize(
    ("threads", "emulator", "taken", "fits"),
    [
        (None, None, (), True),
        ("prefer", None, (), True),
        ("require", None, (), True),
        ("require", None, (0, 1, 2, 3), False),
        ("isolate", None, (), False),
        (None, "isolate", (), False),
        (None, "share", (), True),
    ],
)
def test_a_mixed_cell_without_dedicated_cpus(threads, emulator, taken, fits):
    wanted = InstanceCell(0, frozenset({0}), frozenset(), 64, None, "mixed", threads)
    fitted = fit(threaded(taken), guest(wanted, emulator=emulator), None)
    assert (fitted is not None) == fits
    assert not fits or fitted.cells[0].cpu_pinning == ()


# --- 2: what the filter asks before the fit -------------------------------------------------------


@pytest.mark.parametrize(
    ("siblings", "answer"), [((), False), ((frozenset({0}), frozenset({1})), False), ((frozenset({0, 1}),), True)]
)
def test_a_host_has_threads_where_some_core_has_two(siblings, answer):
    assert has_threads(host(host_cell(1), host_cell(0, siblings=siblings))) == answer


# --- 3.5: usage -----------------------------------------------------------------------------------


def after(cells, wanted, emulator=None):
    """The host's cells with the instance on them."""
    return record_usage(cells, fit(cells, guest(*wanted, emulator=emulator), None)).cells


def test_a_shared_guest_takes_cpus_and_memory():
    (cell,) = after(host(host_cell(cpu_usage=1, memory_usage=100)), [shared(2, 64)])
    assert (cell.cpu_usage, cell.memory_usage, cell.pinned_cpus) == (3, 164, frozenset())


def test_pages_are_taken_from_the_chosen_pool():
    (cell,) = after(host(host_cell(mempages=POOLS)), [shared(1, 64, ANY)])
    assert cell.mempages == (PagePool(4, 262144), PagePool(2048, 256, used=232))


def test_pages_are_taken_from_the_smallest_pool_where_no_size_is_asked():
    (cell,) = after(host(host_cell(mempages=POOLS)), [shared(1, 64)])
    assert cell.mempages == (PagePool(4, 262144, used=16384), POOLS[1])


def test_a_cell_without_page_pools_records_the_rest():
    (cell,) = after(host(host_cell()), [pinned(1, 64)])
    assert (cell.memory_usage, cell.pinned_cpus, cell.mempages) == (64, {0}, ())


def test_pinned_and_reserved_cpus_are_taken():
    (cell,) = after(threaded(), [pinned(2)], emulator="isolate")
    assert cell.pinned_cpus == {0, 4, 1}
    assert cell.cpu_usage == 0


def test_isolate_takes_the_siblings_too():
    (cell,) = after(threaded(), [pinned(2, threads="isolate")], emulator="isolate")
    assert cell.pinned_cpus == {0, 4, 1, 5, 2, 6}


def test_a_mixed_guest_takes_of_both_kinds():
    (cell,) = after(host(MIXED_HOST), [MIXED])
    assert (cell.cpu_usage, cell.pinned_cpus) == (1, {2})


def test_only_the_cells_of_the_guest_change():
    cells = host(host_cell(0), host_cell(1, memory_usage=64), host_cell(2))
    changed = record_usage(cells, fit(cells, guest(shared(1, 64)), None))
    assert [cell.memory_usage for cell in changed.cells] == [64, 64, 0]
    assert changed.cells[1:] == cells.cells[1:]
    assert cells.cells[0].memory_usage == 0


@pytest.mark.parametrize(("host_cpu", "problem"), [(0, "is pinned already"), (9, "is no dedicated CPU")])
def test_taking_a_pinned_or_unknown_cpu_is_an_error(host_cpu, problem):
    wanted = dataclasses.replace(pinned(1), cpu_pinning=((0, host_cpu),))
    with pytest.raises(NumaUsageError, match=f"CPU {host_cpu} .*{problem}") as caught:
        record_usage(threaded({0}), guest(wanted))
    assert isinstance(caught.value, RoostError)


def test_taking_a_cell_that_is_not_there_is_an_error():
    with pytest.raises(NumaUsageError, match="no NUMA cell 3"):
        record_usage(host(host_cell()), guest(shared(1, 64, number=3)))


def test_isolating_a_core_that_somebody_is_on_is_an_error():
    # Nova's rule reserves CPU 5 for the emulator although its sibling 1 is taken: the claim finds out.
    cells = threaded({1, 2, 6, 3, 7})
    fitted = fit(cells, guest(pinned(1, threads="isolate"), emulator="isolate"), None)
    assert fitted.cells[0].cpuset_reserved == {5}
    with pytest.raises(NumaUsageError, match="CPU 1 "):
        record_usage(cells, fitted)


def test_freeing_never_falls_below_nothing():
    used = dataclasses.replace(pinned(2, 64, 2048), cpuset=frozenset({7}), cpu_pinning=((0, 0), (1, 4)))
    cells = threaded({4}, mempages=(PagePool(2048, 64, used=3),), memory_usage=10)
    (cell,) = release_usage(cells, guest(used)).cells
    assert (cell.cpu_usage, cell.memory_usage, cell.pinned_cpus, cell.mempages[0].used) == (0, 0, frozenset(), 0)


def test_freeing_passes_over_cells_that_are_gone():
    cells = host(host_cell(memory_usage=64))
    assert release_usage(cells, guest(shared(1, 64, number=3))) == cells


def test_the_next_instance_starts_from_the_page_size_found():
    cells = host(host_cell(mempages=POOLS))
    first = fit(cells, guest(shared(1, 64, ANY)), None)
    assert first.cells[0].pagesize == 2048
    assert fit(record_usage(cells, first), first, None) is None  # 48 MB left in these pages
    assert fit(record_usage(cells, first), guest(shared(1, 64, ANY)), None).cells[0].pagesize == 4


def test_an_instance_that_was_fitted_can_be_fitted_again():
    cells = threaded()
    first = fit(cells, guest(pinned(2), emulator="isolate"), None)
    second = fit(record_usage(cells, first), first, None).cells[0]
    assert [host_cpu for _, host_cpu in second.cpu_pinning] == [2, 6]
    assert second.cpuset_reserved == {5}


# --- 3.6: networks --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "other", "needs", "fits"),
    [
        ({"physnets": {"p1"}}, None, {"physnets": {"p1"}}, True),
        ({}, {"physnets": {"p1"}}, {"physnets": {"p1"}}, False),
        ({}, {}, {"physnets": {"p1"}}, True),
        ({}, {"tunneled": True}, {"tunneled": True}, False),
        ({"tunneled": True}, {}, {"tunneled": True}, True),
        ({}, {}, {"tunneled": True}, True),
        ({}, {"physnets": {"p1"}, "tunneled": True}, {}, True),
        ({"physnets": {"p1"}}, {"physnets": {"p2"}}, {"physnets": {"p1", "p3"}}, True),
        ({"physnets": {"p1"}}, {"physnets": {"p2"}}, {"physnets": {"p1", "p2"}}, False),
    ],
)
def test_networks_near_the_chosen_cell(chosen, other, needs, fits):
    """The other cell has no CPUs, so that the instance cannot go there."""
    cells = [host_cell(0, **frozen(chosen))]
    cells += [] if other is None else [host_cell(1, cpus=0, **frozen(other))]
    found = fit(host(*cells), guest(shared(1, 64)), None, network=NetworkMetadata(**frozen(needs)))
    assert (found is not None) == fits


def frozen(fields):
    return {name: frozenset(value) if isinstance(value, set) else value for name, value in fields.items()}


def test_an_instance_goes_where_its_network_is():
    cells = host(host_cell(0), host_cell(1, physnets=frozenset({"p1"})))
    assert ids(fit(cells, guest(shared(1, 64)), None)) == [0]
    assert ids(fit(cells, guest(shared(1, 64)), None, network=NetworkMetadata(frozenset({"p1"})))) == [1]


def test_one_of_two_chosen_cells_is_near_enough():
    cells = host(host_cell(0), host_cell(1, physnets=frozenset({"p1"})))
    wanted = guest(shared(1, 64), shared(1, 64))
    assert ids(fit(cells, wanted, None, network=NetworkMetadata(frozenset({"p1"}), True))) == [0, 1]


# --- 4: where nova errs ---------------------------------------------------------------------------


def test_unequal_cells_are_not_confused_so_what_fits_is_found():
    cells = host(host_cell(0, 1, 1024), host_cell(1, 4, 2048), host_cell(2, 4, 512))
    assert ids(fit(cells, guest(shared(4, 256), shared(2, 1024)), EQUAL)) == [2, 1]


def test_unequal_cells_are_not_confused_so_what_does_not_fit_is_refused():
    cells = host(host_cell(0, 1), host_cell(1, 2), host_cell(2, 1))
    assert fit(cells, guest(shared(1, 64), shared(1, 64), shared(4, 64)), EQUAL) is None


SMALL_POOL, BIG_POOL, HUGE_POOL = PagePool(4, 262144), PagePool(2048, 512), PagePool(GIB, 1)


@pytest.mark.parametrize(("asked", "size"), [(ANY, 4), (SMALL, 4), (None, None)])
def test_a_page_size_found_on_a_rejected_cell_does_not_stick(asked, size):
    cells = host(host_cell(0, 1, mempages=(BIG_POOL,)), host_cell(1, 4, mempages=(SMALL_POOL,)))
    fitted = fit(cells, guest(shared(2, 512, asked)), EQUAL)
    assert ids(fitted) == [1]
    assert fitted.cells[0].pagesize == size


def test_a_large_page_size_found_on_a_rejected_cell_does_not_stick():
    cells = host(
        host_cell(0, 1, 1024, mempages=(SMALL_POOL, BIG_POOL)),
        host_cell(1, 4, 1024, mempages=(SMALL_POOL, HUGE_POOL)),
    )
    fitted = fit(cells, guest(shared(2, 1024, LARGE)), EQUAL)
    assert (ids(fitted), fitted.cells[0].pagesize) == ([1], GIB)


# --- the records ----------------------------------------------------------------------------------


def test_equal_topologies_are_one_value_of_a_column():
    one, same, other = threaded({0}), threaded({0}), threaded({1})
    column = Encoded([one, same, other])
    assert column.codes.tolist() == [0, 0, 1]
    assert hash(one) == hash(same)
    assert hash(pickle.loads(pickle.dumps(one))) == hash(one)


def test_every_field_tells_topologies_apart():
    cell = threaded().cells[0]
    changes = {
        "socket": 1,
        "physnets": frozenset({"p"}),
        "tunneled": True,
        "siblings": (),
        "memory": 1,
        "cpu_usage": 1,
    }
    for name, value in changes.items():
        assert host(dataclasses.replace(cell, **{name: value})) != host(cell)


def test_host_cells_are_read_from_json_with_defaults():
    assert host_topology_from_json({"cells": [{"id": 1, "memory": 512}]}) == host(
        HostCell(1, frozenset(), frozenset(), 512)
    )
    nothing = dict.fromkeys(("cpuset", "cpu_usage", "siblings", "mempages", "socket", "physnets", "tunneled"))
    assert host_topology_from_json({"cells": [{"id": 1, "memory": 512} | nothing]}) == host(
        HostCell(1, frozenset(), frozenset(), 512)
    )


def test_all_fields_are_read_from_json():
    data = {
        "id": 0,
        "cpuset": [0, 1],
        "pcpuset": [2, 3],
        "memory": 1024,
        "cpu_usage": 1,
        "memory_usage": 64,
        "pinned_cpus": [2],
        "siblings": [[0, 1], [2, 3]],
        "mempages": [{"size_kb": 4, "total": 100, "used": 1, "reserved": 2}, {"size_kb": 2048, "total": 3}],
        "socket": 1,
        "physnets": ["p1"],
        "tunneled": True,
    }
    assert host_topology_from_json({"cells": [data]}).cells == (
        HostCell(
            0,
            frozenset({0, 1}),
            frozenset({2, 3}),
            1024,
            1,
            64,
            frozenset({2}),
            (frozenset({0, 1}), frozenset({2, 3})),
            (PagePool(4, 100, 1, 2), PagePool(2048, 3)),
            1,
            frozenset({"p1"}),
            True,
        ),
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": None}, ".id"),
        ({"memory": None}, ".memory"),
        ({"memory": 1.5}, ".memory"),
        ({"cpu_usage": -1}, ".cpu_usage"),
        ({"cpuset": 4}, ".cpuset"),
        ({"pinned_cpus": ["0"]}, ".pinned_cpus[0]"),
        ({"siblings": [0]}, ".siblings[0]"),
        ({"siblings": [[0, 1], [1]]}, ".siblings"),
        ({"mempages": {}}, ".mempages"),
        ({"mempages": [{"size_kb": 4}]}, ".mempages[0].total"),
        ({"mempages": [{"size_kb": 0, "total": 1}]}, ".mempages[0].size_kb"),
        ({"mempages": [{"size_kb": 4, "total": 1}] * 2}, ".mempages"),
        ({"mempages": [{"size": 4, "total": 1}]}, ".mempages[0]"),
        ({"socket": "0"}, ".socket"),
        ({"physnets": [1]}, ".physnets[0]"),
        ({"tunneled": "yes"}, ".tunneled"),
        ({"memory_mb": 4}, ""),
    ],
)
def test_a_bad_host_cell_is_an_error_with_its_place(change, field):
    with pytest.raises(FieldError) as caught:
        host_topology_from_json({"cells": [{"id": 0, "memory": 512} | change]})
    assert caught.value.field == f"numa.cells[0]{field}"


@pytest.mark.parametrize("data", [None, {}, {"cells": 1}, {"cels": []}, {"cells": [{"id": 0, "memory": 1}] * 2}])
def test_a_bad_host_topology_is_an_error(data):
    with pytest.raises(FieldError, match="numa"):
        host_topology_from_json(data)


# --- sentences ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "wanted", "limits", "sentence"),
    [
        (host(host_cell()), guest(shared(1, 1), shared(1, 1)), None, "2 NUMA cells asked, the host has 1"),
        (
            threaded({0, 1, 2, 3, 4, 5}),
            guest(pinned(4)),
            None,
            "no NUMA cell has 4 free dedicated CPUs; the most is 2",
        ),
        (
            threaded(),
            guest(pinned(8), emulator="isolate"),
            None,
            "no NUMA cell has 9 free dedicated CPUs (one for the emulator); the most is 8",
        ),
        (
            threaded({0, 1, 2, 3}),
            guest(pinned(2, threads="require")),
            None,
            "no NUMA cell has 2 free dedicated CPUs that thread policy require allows",
        ),
        (host(host_cell()), guest(shared(3, 64)), None, "no NUMA cell has 3 shared CPUs; the most is 2"),
        (host(host_cell()), guest(shared(1, 2048)), None, "no NUMA cell has 2048 MB; the most is 1024 MB"),
        (
            host(host_cell(memory_usage=600)),
            guest(pinned(1, 512)),
            None,
            "no NUMA cell has 512 MB free; the most is 424 MB",
        ),
        (
            host(host_cell(mempages=(BIG_POOL,))),
            guest(shared(1, 65)),
            None,
            "no NUMA cell has 65 MB in whole pages",
        ),
        (host(host_cell()), guest(shared(1, 64, 2048)), None, "no NUMA cell offers 2048 KiB pages"),
        (host(host_cell(mempages=(BIG_POOL,))), guest(shared(1, 64, LARGE)), None, "no NUMA cell offers large pages"),
        (
            host(host_cell(mempages=POOLS)),
            guest(shared(1, 1024, 2048)),
            None,
            "no free 2048 KiB pages for 1024 MB in one NUMA cell; the most is 112 MB",
        ),
        (
            host(host_cell(mempages=POOLS)),
            guest(shared(1, 63, 2048)),
            None,
            "no NUMA cell has 63 MB free in whole 2048 KiB pages",
        ),
        (
            host(host_cell(cpu_usage=1)),
            guest(shared(2, 64)),
            EQUAL,
            "no NUMA cell may promise 2 shared CPUs more; the most is 1",
        ),
        (
            host(host_cell(memory_usage=1000)),
            guest(shared(1, 64)),
            EQUAL,
            "no NUMA cell may promise 64 MB more; the most is 24 MB",
        ),
        (
            host(host_cell(cpu_usage=3)),
            guest(shared(1, 64)),
            EQUAL,
            "every NUMA cell has promised more shared CPUs than it may",
        ),
        (
            threaded(),
            guest(InstanceCell(0, frozenset({0}), frozenset(), 64, None, "mixed", "isolate")),
            None,
            "thread policy isolate cannot be had for NUMA cell 0, which has no dedicated CPU",
        ),
        (
            threaded(),
            guest(InstanceCell(0, frozenset({0}), frozenset(), 64, None, "mixed"), emulator="isolate"),
            None,
            "an isolated emulator cannot be had for NUMA cell 0, which has no dedicated CPU",
        ),
        (
            host(host_cell(0, memory_usage=1000), host_cell(1, cpu_usage=2)),
            guest(shared(1, 64)),
            EQUAL,
            "no NUMA cell may promise 1 shared CPU and 64 MB more at once",
        ),
        (
            host(host_cell(0, 1, 1024), host_cell(1, 4, 256)),
            guest(shared(2, 512)),
            None,
            "no NUMA cell has room for 2 CPUs and 512 MB at once",
        ),
        (
            host(host_cell(0, 4), host_cell(1, 1)),
            guest(shared(2, 64), shared(2, 64)),
            None,
            "the 2 NUMA cells asked fit one by one, but not on different cells of the host",
        ),
        (
            host(host_cell()),
            guest(shared(1, 64)),
            None,
            "the NUMA cells fit, but not near the devices or networks asked for",
        ),
    ],
)
def test_why_an_instance_does_not_fit(cells, wanted, limits, sentence):
    assert topology_reason(cells, wanted, limits) == sentence


# --- against the plain rule -----------------------------------------------------------------------
# Section 3 once more, as plain loops: every permutation, every pair anew.


def plain_fit(host, instance, limits, packs, devices, asks, devices_fit):
    cells = list(host.cells)
    if len(cells) > len(instance.cells):
        sign = 1 if packs else -1
        cells = sorted(cells, key=lambda cell: sign * (cell.memory - cell.memory_usage))
        if instance.cells[0].cpu_policy in ("dedicated", "mixed"):
            cells = sorted(cells, key=lambda cell: sign * len(cell.pcpuset - cell.pinned_cpus))
        else:
            cells = sorted(cells, key=lambda cell: -sign * cell.cpu_usage)
        if devices is not None:
            cells = sorted(cells, key=lambda cell: devices.get(cell.id, 0) * (-1 if asks else 1))
    for chosen in itertools.permutations(cells, len(instance.cells)):
        fitted = []
        for at, (place, cell) in enumerate(zip(chosen, instance.cells, strict=True)):
            overhead = 1 if at == 0 and instance.emulator_threads_policy == "isolate" else 0
            fitted.append(plain_pair(place, cell, overhead, limits))
        if None not in fitted and devices_fit(tuple(place.id for place in chosen)):
            return InstanceTopology(tuple(fitted), instance.emulator_threads_policy)
    return None


def plain_pair(place, cell, overhead, limits):
    pins = cell.cpu_policy in ("dedicated", "mixed")
    shares = cell.cpu_policy in (None, "shared", "mixed")
    size = plain_memory(place, cell, pins)
    if size is False:
        return None
    if pins and len(cell.pcpuset) + overhead > len(place.pcpuset):
        return None
    if shares and len(cell.cpuset) > len(place.cpuset):
        return None
    pinning, reserved = {}, set()
    if pins:
        if len(cell.pcpuset) + overhead > len(place.pcpuset - place.pinned_cpus):
            return None
        found = plain_pins(place, len(cell.pcpuset), overhead, cell.cpu_thread_policy)
        if found is None:
            return None
        pinning, reserved = dict(zip(sorted(cell.pcpuset), found[0], strict=True)), found[1]
    if shares and limits:
        if place.cpu_usage + len(cell.cpuset) > len(place.cpuset) * limits.cpu_ratio:
            return None
        if place.memory_usage + cell.memory > place.memory * limits.ram_ratio:
            return None
    return dataclasses.replace(
        cell, id=place.id, pagesize=size, cpu_pinning=tuple(pinning.items()), cpuset_reserved=frozenset(reserved)
    )


def plain_memory(place, cell, pins):
    """The page size, None where none is asked, False where it does not fit."""
    kb = cell.memory * 1024
    pools = {pool.size_kb: pool for pool in place.mempages}
    sizes = sorted(pools, reverse=True)
    free = {size: (pools[size].total - pools[size].used - pools[size].reserved) * size for size in sizes}
    if cell.pagesize is None:
        if not sizes:
            return None if cell.memory <= place.memory - (place.memory_usage if pins else 0) else False
        room = free[sizes[-1]] if pins else pools[sizes[-1]].total * sizes[-1]
        return None if kb <= room and kb % sizes[-1] == 0 else False
    tried = {SMALL: sizes[-1:], LARGE: sizes[:-1], ANY: sizes}.get(cell.pagesize, [cell.pagesize])
    return next((size for size in tried if size in pools and kb <= free[size] and kb % size == 0), False)


def plain_pins(place, count, overhead, policy):
    free = place.pcpuset - place.pinned_cpus
    sets = [sorted(core & free) for core in place.siblings] or [[cpu] for cpu in sorted(free)]
    most = max([len(core) for core in place.siblings], default=1)
    if count == 0:
        fits = policy != "require" or any(len(core) > 1 for core in sets)
        return ([], set()) if fits and policy != "isolate" and not overhead else None
    if policy == "isolate":
        whole = [core for core in sets if len(core) >= most]
        if not whole or (most > 1 and place.pcpuset != place.cpuset) or len(whole) < count:
            return None
        chosen = [core[0] for core in whole[:count]]
        left = [cpu for core in sets if not set(core) & set(chosen) for cpu in core]
        return (chosen, set(left[:overhead])) if len(left) >= overhead else None
    tries = [(t, sets) for t in range(most, 0, -1) if t > 1 or policy != "require"]
    if policy != "require":
        tries.append((1, [[cpu] for core in sets for cpu in core]))
    for t, cores in tries:
        able = [core for core in cores if len(core) >= t]
        if t * len(able) >= count:
            chosen = [cpu for core in able for cpu in core[:t]][:count]
            left = [cpu for core in cores for cpu in core if cpu not in chosen]
            if len(left) >= overhead:
                return chosen, set(left[:overhead])
    return None


PAGE_TOTALS = {4: (131072, 65536, 16384), 2048: (256, 128, 32), GIB: (1,)}
"""Pool sizes to draw from: 64 to 1024 MB."""
PAGE_KINDS = [[4, 2048], [], [4], [2048], [2048, 4, GIB]]


@st.composite
def host_cells(draw, number, page_kinds):
    cores, threads = draw(st.sampled_from([4, 3, 2, 1])), draw(st.sampled_from([1, 2]))
    siblings = [[number * 16 + core + 8 * thread for thread in range(threads)] for core in range(cores)]
    cpus = sorted(itertools.chain.from_iterable(siblings))
    split = draw(st.sampled_from([None, None, 0, len(cpus) // 2]))  # None: legacy style
    own = frozenset(cpus if split is None else cpus[split:])
    pools = []
    for size in draw(page_kinds):
        total = draw(st.sampled_from(PAGE_TOTALS[size]))
        used = total * draw(st.sampled_from([0, 0, 1, 3])) // 4
        pools.append(PagePool(size, total, used, draw(st.sampled_from([0, 0, 1]))))
    return HostCell(
        id=number,
        cpuset=frozenset(cpus if split is None else cpus[:split]),
        pcpuset=own,
        memory=draw(st.sampled_from([1024, 512, 256])),
        cpu_usage=draw(st.integers(0, 3)),
        memory_usage=draw(st.sampled_from([0, 0, 128, 512])),
        pinned_cpus=draw(st.frozensets(st.sampled_from(sorted(own)), max_size=2)),
        siblings=() if threads == 1 and draw(st.booleans()) else tuple(map(frozenset, siblings)),
        mempages=tuple(pools),
    )


@st.composite
def host_topologies(draw):
    page_kinds = st.sampled_from(draw(st.sampled_from([PAGE_KINDS[:1], PAGE_KINDS[1:2], PAGE_KINDS])))
    numbers = draw(st.permutations(range(draw(st.sampled_from([4, 3, 2, 1])))))
    return HostTopology(tuple(draw(host_cells(number, page_kinds)) for number in numbers))


@st.composite
def guests(draw):
    policy = draw(st.sampled_from([None, "shared", "dedicated", "dedicated", "mixed"]))
    is_pinned = policy in ("dedicated", "mixed")
    threads = draw(st.sampled_from([None, "prefer", "require", "isolate"])) if is_pinned else None
    sizes = st.sampled_from(draw(st.sampled_from([[None], [ANY], [SMALL], [LARGE], [2048], [None, LARGE, ANY, 4]])))
    cells, first = [], 0
    for number in range(draw(st.integers(1, 3))):
        least = 0 if policy == "mixed" else 1
        own = draw(st.sampled_from([1, 2, least, 3])) if is_pinned else 0
        others = draw(st.sampled_from([1, least, 2])) if policy != "dedicated" else 0
        size, memory = draw(sizes), draw(st.sampled_from([64, 64, 2, 128, 63, 256, 1024]))
        cpus = [frozenset(range(first, first + others)), frozenset(range(first + others, first + others + own))]
        cells.append(InstanceCell(number, *cpus, memory, size, policy, threads))
        first += others + own
    emulator = draw(st.sampled_from([None, "share", "isolate"])) if is_pinned else None
    return InstanceTopology(tuple(cells), emulator)


RATIOS = st.sampled_from([1.0, 1.5, 4.0]), st.sampled_from([0.5, 1.0, 1.5])
LIMITS = st.one_of(st.none(), st.builds(OvercommitLimits, *RATIOS))
DEVICES = st.one_of(st.none(), st.dictionaries(st.integers(0, 3), st.integers(0, 2)))
REFUSED_CELLS = st.frozensets(st.integers(0, 3), max_size=2)
THOROUGH = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@THOROUGH
@given(host_topologies(), guests(), LIMITS, st.booleans(), DEVICES, st.booleans(), REFUSED_CELLS)
@example(
    host(host_cell(0, 1, 1024), host_cell(1, 4, 2048), host_cell(2, 4, 512)),
    guest(shared(4, 256), shared(2, 1024)),
    EQUAL,
    False,
    None,
    False,
    frozenset(),
)
def test_the_search_finds_what_the_plain_rule_finds(cells, wanted, limits, packs, devices, asks, refused):
    def devices_fit(chosen):
        return not refused & frozenset(chosen)

    found = fit(
        cells,
        wanted,
        limits,
        packs=packs,
        free_devices_per_cell=devices,
        asks_devices=asks,
        devices_fit=devices_fit,
    )
    assert found == plain_fit(cells, wanted, limits, packs, devices, asks, devices_fit)
    if found is None:
        assert topology_reason(cells, wanted, limits)


@THOROUGH
@given(host_topologies(), guests())
def test_what_is_recorded_can_be_freed(cells, wanted):
    fitted = fit(cells, wanted, None)
    if fitted is None:
        return
    isolates_the_emulator = wanted.cells[0].cpu_thread_policy == wanted.emulator_threads_policy == "isolate"
    try:
        used = record_usage(cells, fitted)
    except NumaUsageError:
        assert isolates_the_emulator  # see test_isolating_a_core_that_somebody_is_on_is_an_error
        return
    assert used != cells
    assert all(cell.pinned_cpus <= cell.pcpuset for cell in used.cells)
    assert release_usage(used, fitted) == cells


def test_a_derived_topology_fits():
    specs = {"hw:cpu_policy": "dedicated", "hw:mem_page_size": "2MB", "hw:numa_nodes": "2"}
    wanted = derive_topology(Flavor(vcpus=4, memory_mb=512, extra_specs=specs), None)
    cells = host(*(host_cell(number, 4, mempages=(SMALL_POOL, BIG_POOL)) for number in (0, 1)))
    assert [each.cpu_pinning for each in fit(cells, wanted, EQUAL).cells] == [((0, 0), (1, 1)), ((2, 100), (3, 101))]
