# SPDX-License-Identifier: Apache-2.0
"""DESIGN.md, capacity and claim: used + asked <= (total - reserved) x ratio, in the portions the host allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.hosts import Inventory, capacity
from roost.scheduler.checks import capacity_checks
from roost.testing import make_hosts, make_spec

GPU = "CUSTOM_GPU"


def fitting(table, spec):
    """Names of the hosts that pass every capacity check."""
    hosts = table.in_the_running()
    for check in capacity_checks(spec):
        hosts = check.survivors(hosts)
    return [host.host for host in hosts]


def gpus(allocated=0, **inventory):
    """A table of one host with an inventory of GPUs."""
    table = make_hosts(1, resources={GPU: Inventory(**inventory)})
    table.writable_column(f"allocated:{GPU}")[:] = allocated
    return table


@pytest.mark.parametrize(
    ("ratio", "used", "asked", "fits"),
    [
        pytest.param(1.0, 0, 8, True, id="all of it"),
        pytest.param(1.0, 7, 1, True, id="exactly the rest"),
        pytest.param(1.0, 7, 2, False, id="one more than the rest"),
        pytest.param(4.0, 31, 1, True, id="overcommitted to 32"),
        pytest.param(4.0, 32, 1, False, id="overcommitted and full"),
        pytest.param(4.0, 0, 9, False, id="no single instance exceeds the physical host"),
        pytest.param(0.5, 3, 1, True, id="undercommitted to 4"),
        pytest.param(0.5, 4, 1, False, id="undercommitted and full"),
        pytest.param(1.1, 7, 1, True, id="8.8 gives 8"),
        pytest.param(1.1, 8, 1, False, id="8.8 does not give 9"),
        pytest.param(0.0, 0, 1, False, id="ratio 0 gives nothing"),
    ],
)
def test_the_ratio_stretches_what_all_take_together(ratio, used, asked, fits):
    table = make_hosts(1, vcpus_total=8, vcpus_used=used, cpu_allocation_ratio=ratio)
    assert capacity.fits(table, "VCPU", asked).tolist() == [fits]


@pytest.mark.parametrize(("asked", "fits"), [(7680, True), (7681, False)])
def test_what_is_reserved_is_not_given_out(asked, fits):
    table = make_hosts(1, total_usable_ram_mb=8192, reserved_ram_mb=512)
    assert capacity.fits(table, "MEMORY_MB", asked).tolist() == [fits]


@pytest.mark.parametrize(("used", "fits"), [(11, True), (12, False)])
def test_the_reservation_is_taken_off_before_the_ratio(used, fits):
    table = make_hosts(1, vcpus_total=8, reserved_vcpus=2, vcpus_used=used, cpu_allocation_ratio=2.0)
    assert capacity.fits(table, "VCPU", 1).tolist() == [fits]  # (8 - 2) x 2 = 12


@pytest.mark.parametrize(
    ("inventory", "asked", "fits"),
    [
        pytest.param({"total": 8, "min_unit": 2}, 1, False, id="below the least"),
        pytest.param({"total": 8, "min_unit": 2}, 2, True, id="the least"),
        pytest.param({"total": 8, "max_unit": 4}, 4, True, id="the most"),
        pytest.param({"total": 8, "max_unit": 4}, 5, False, id="above the most"),
        pytest.param({"total": 8, "max_unit": 16, "allocation_ratio": 4.0}, 16, True, id="more than the host has"),
        pytest.param({"total": 8, "step_size": 3}, 6, True, id="two steps"),
        pytest.param({"total": 8, "step_size": 3}, 4, False, id="between two steps"),
        pytest.param({"total": 8, "reserved": 8}, 1, False, id="all reserved"),
        pytest.param({"total": 8, "allocation_ratio": 2.0}, 8, True, id="most is the total by default"),
        pytest.param({"total": 8, "allocation_ratio": 2.0}, 9, False, id="the default does not grow with the ratio"),
    ],
)
def test_portions(inventory, asked, fits):
    assert capacity.fits(gpus(**inventory), GPU, asked).tolist() == [fits]


def test_hosts_with_portions_and_hosts_without_are_judged_each_by_its_own():
    table = make_hosts(resources=[{GPU: Inventory(8, min_unit=4)}, {GPU: Inventory(8)}])
    assert capacity.fits(table, GPU, 2).tolist() == [False, True]


def test_a_class_that_only_others_have_does_not_fit():
    table = make_hosts(resources=[{GPU: Inventory(8)}, {}])
    assert capacity.fits(table, GPU, 1).tolist() == [True, False]


def test_a_class_that_nobody_has_does_not_fit():
    assert capacity.fits(make_hosts(2), "CUSTOM_FPGA", 1).tolist() == [False, False]


def test_every_class_asked_must_fit():
    table = make_hosts(
        host=["no-cpu", "no-disk", "no-gpu", "no-ram", "roomy"],
        vcpus_total=[0, 8, 8, 8, 8],
        total_usable_ram_mb=[1024, 1024, 1024, 256, 1024],
        total_usable_disk_gb=[10, 1, 10, 10, 10],
        resources=[{GPU: Inventory(1)}, {GPU: Inventory(1)}, {}, {GPU: Inventory(1)}, {GPU: Inventory(1)}],
    )
    spec = make_spec(vcpus=1, memory_mb=512, root_gb=5, extra_specs={f"resources:{GPU}": "1"})
    assert fitting(table, spec) == ["roomy"]


def test_nothing_asked_of_a_class_fits_where_it_is_overdrawn():
    table = make_hosts(1, vcpus_total=1, total_usable_ram_mb=512, total_usable_disk_gb=10, free_disk_mb=-4096)
    assert fitting(table, make_spec(root_gb=0)) == ["host1"]


def test_swap_is_rounded_up_to_whole_gb():
    table = make_hosts(vcpus_total=1, total_usable_ram_mb=512, total_usable_disk_gb=[2, 3])
    assert fitting(table, make_spec(root_gb=2, swap=1)) == ["host2"]


def test_a_volume_booted_instance_takes_no_root_disk():
    table = make_hosts(1, vcpus_total=1, total_usable_ram_mb=512, total_usable_disk_gb=0)
    assert fitting(table, make_spec(root_gb=20, is_bfv=True)) == ["host1"]


@pytest.mark.parametrize(
    ("extra_specs", "names"),
    [
        pytest.param({}, ["amd", "gold", "plain"], id="nothing asked"),
        pytest.param({"trait:CUSTOM_GOLD": "required"}, ["gold"], id="required"),
        pytest.param({"trait:CUSTOM_GOLD": "forbidden"}, ["amd", "plain"], id="forbidden"),
        pytest.param({"trait:HW_CPU_X86_AVX2": "required"}, ["amd", "gold"], id="required by two"),
        pytest.param(
            {"trait:HW_CPU_X86_AVX2": "required", "trait:CUSTOM_GOLD": "forbidden"}, ["amd"], id="one of each"
        ),
        pytest.param({"trait:CUSTOM_NONE": "required"}, [], id="nobody has it"),
        pytest.param({"trait1:CUSTOM_GOLD": "required"}, ["gold"], id="of a group"),
        pytest.param({"trait:CUSTOM_GOLD": "preferred"}, ["amd", "gold", "plain"], id="no such wish: ignored"),
    ],
)
def test_traits(extra_specs, names):
    table = make_hosts(
        host=["amd", "gold", "plain"],
        vcpus_total=1,
        total_usable_ram_mb=512,
        traits=[{"HW_CPU_X86_AVX2"}, {"HW_CPU_X86_AVX2", "CUSTOM_GOLD"}, set()],
    )
    assert fitting(table, make_spec(extra_specs=extra_specs)) == names


def test_an_image_may_require_traits():
    table = make_hosts(vcpus_total=1, total_usable_ram_mb=512, traits=[{"CUSTOM_GOLD"}, set()])
    assert fitting(table, make_spec(image={"trait:CUSTOM_GOLD": "required"})) == ["host1"]


def test_a_disabled_host_does_not_fit():
    table = make_hosts(vcpus_total=1, total_usable_ram_mb=512, service=[{"disabled": True}, {}])
    assert fitting(table, make_spec()) == ["host2"]


def test_a_rebuild_asks_for_no_capacity():
    spec = make_spec(vcpus=99, scheduler_hints={"_nova_check_type": ["rebuild"]})
    assert fitting(make_hosts(1, vcpus_total=1), spec) == ["host1"]


@pytest.mark.parametrize(
    ("inventory", "allocated", "asked", "reason"),
    [
        ({"total": 8}, 7, 2, "2 CUSTOM_GPU asked; 1 of 8 left"),
        ({"total": 8}, 9, 1, "1 CUSTOM_GPU asked; 0 of 8 left"),
        ({"total": 8, "max_unit": 4}, 0, 5, "5 CUSTOM_GPU asked; one instance may take 4 at most"),
        ({"total": 8, "min_unit": 2}, 0, 1, "1 CUSTOM_GPU asked; one instance must take 2 at least"),
        ({"total": 8, "step_size": 3}, 0, 4, "4 CUSTOM_GPU asked; it is given out in steps of 3"),
    ],
)
def test_the_reason_names_what_was_asked_and_what_was_there(inventory, allocated, asked, reason):
    (host,) = gpus(allocated, **inventory)
    assert capacity.host_shortage_reason(host, GPU, asked) == reason


def test_the_reason_on_a_host_without_the_class_says_so():
    (host,) = make_hosts(1)
    assert capacity.host_shortage_reason(host, GPU, 1) == "1 CUSTOM_GPU asked; the host has none"


def test_the_reason_for_the_usual_classes_uses_their_usual_names():
    (host,) = make_hosts(1, total_usable_ram_mb=1024, free_ram_mb=100)
    assert capacity.host_shortage_reason(host, "MEMORY_MB", 512) == "512 MiB ram asked; 100 of 1024 left"


def test_the_reason_for_traits_names_those_missing_and_those_in_the_way():
    (host,) = make_hosts(1, traits={"C"})
    reason = capacity.traits_reason(host, frozenset({"B", "A"}), frozenset({"C"}))
    assert reason == "lacks A, B; has the forbidden C"


def test_the_shortage_names_what_the_roomiest_host_could_give_to_one_instance():
    table = make_hosts(total_usable_ram_mb=[1024, 4096], free_ram_mb=[1024, 100])
    assert capacity.shortage_summary(table, "MEMORY_MB", 2048) == "needs 2048 MiB, most free 1024"


def test_no_host_has_less_than_nothing_free():
    table = make_hosts(1, total_usable_ram_mb=1024, free_ram_mb=-512)
    assert capacity.most_free(table, "MEMORY_MB") == 0


def test_room_that_comes_in_other_portions_is_told_apart_from_no_room():
    shortage = capacity.shortage_summary(gpus(total=8, step_size=3), GPU, 4)
    assert shortage == "needs 4, which no host gives out in one portion"


def test_nothing_is_free_of_a_class_that_nobody_has():
    assert capacity.shortage_summary(make_hosts(1), GPU, 4) == "needs 4, most free 0"


# --- one row -----------------------------------------------------------------------------------------

INVENTORIES = st.builds(
    Inventory,
    total=st.integers(0, 8),
    reserved=st.integers(0, 2),
    allocation_ratio=st.sampled_from([0.5, 1.0, 1.1, 2.0]),
    max_unit=st.sampled_from([None, 2, 4, 16]),
)
PORTIONED = st.builds(Inventory, total=st.integers(0, 8), min_unit=st.integers(1, 3), step_size=st.integers(1, 3))
CLASSES = ("VCPU", "MEMORY_MB", GPU, "CUSTOM_FPGA")
AMOUNTS = st.dictionaries(st.sampled_from(CLASSES), st.integers(1, 9))


@st.composite
def partly_given_out(draw):
    """Hosts with usual classes, with one that some give out in portions, and with one that nobody has."""
    held = draw(st.lists(st.one_of(st.none(), INVENTORIES, PORTIONED), min_size=1, max_size=5))
    table = make_hosts(
        vcpus_total=[draw(st.integers(0, 8)) for _ in held],
        total_usable_ram_mb=[draw(st.integers(0, 8)) for _ in held],
        resources=[{} if each is None else {GPU: each} for each in held],
    )
    for name in table.resource_classes():
        table.writable_column(f"allocated:{name}")[:] = [draw(st.integers(0, 9)) for _ in held]
    return table


@given(partly_given_out(), st.sampled_from(CLASSES), st.integers(1, 9))
def test_one_row_gets_the_answer_that_it_gets_among_all(table, resource_class, asked):
    fits = capacity.fits_row(table, resource_class, asked)
    assert [fits(row) for row in range(len(table))] == capacity.fits(table, resource_class, asked).tolist()


@given(partly_given_out(), AMOUNTS)
def test_the_first_lack_is_the_first_amount_that_does_not_fit(table, amounts):
    first_lack = capacity.first_shortage(table, amounts)
    masks = [capacity.fits(table, name, amount).tolist() for name, amount in amounts.items()]
    for row in range(len(table)):
        assert first_lack(row) == next((at for at, mask in enumerate(masks) if not mask[row]), None)


def test_who_is_asked_for_nothing_lacks_nothing():
    assert capacity.first_shortage(make_hosts(1), {})(0) is None


def test_one_row_is_asked_about_as_it_is_now():
    table = gpus(total=8)
    fits, first_lack = capacity.fits_row(table, GPU, 2), capacity.first_shortage(table, {GPU: 2})
    assert (fits(0), first_lack(0)) == (True, None)
    table.writable_column(f"allocated:{GPU}")[0] = 7
    assert (fits(0), first_lack(0)) == (False, 0)
