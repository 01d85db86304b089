"""On generated hosts: with the remedy of a filter or check for amounts, the host passes it."""

import numpy as np
import pytest

from roost.filters.core import CoreFilter
from roost.filters.disk import DiskFilter
from roost.filters.ram import RamFilter
from roost.hosts import HostRecord, HostTable
from roost.model import Flavor, RequestSpec
from roost.model.remedy import HostChange, apply_all_to_request
from roost.questions.what_if import set_field
from roost.scheduler.checks import capacity_checks, filter_checks

CHANCE = np.random.default_rng(20)


def record(number):
    total = [int(each) for each in CHANCE.integers(1, 64, size=3)]
    ratio = [float(each) for each in CHANCE.choice([0.3, 0.9, 1.0, 1.5, 4.0, 16.0], size=3)]
    used = [int(CHANCE.integers(0, 2 * amount)) for amount in total]
    return HostRecord(
        f"n{number}",
        vcpus_total=total[0],
        vcpus_used=used[0],
        total_usable_ram_mb=512 * total[1],
        free_ram_mb=512 * (total[1] - used[1]),
        reserved_ram_mb=int(CHANCE.integers(0, 512)),
        total_usable_disk_gb=total[2],
        free_disk_mb=int(CHANCE.integers(-2048, 1024 * total[2])),
        cpu_allocation_ratio=ratio[0],
        ram_allocation_ratio=ratio[1],
        disk_allocation_ratio=ratio[2],
        allocations={"VCPU": used[0], "MEMORY_MB": 512 * used[1], "DISK_GB": used[2]} if number % 2 else None,
    )


def flavor():
    cpus, memory, *disks = (int(each) for each in CHANCE.integers(1, [48, 24000, 60, 10, 3000]))
    return Flavor(vcpus=cpus, memory_mb=memory, root_gb=disks[0], ephemeral_gb=disks[1], swap=disks[2])


def checks_of(spec):
    return {each.name: each for each in (*capacity_checks(spec), *filter_checks(RULES, spec, 0))}


RULES = [RamFilter(), CoreFilter(), DiskFilter()]
CASES = [(record(number), RequestSpec(flavor=flavor())) for number in range(150)]
TABLE = HostTable.of([host for host, _ in CASES])


@pytest.mark.parametrize("name", ["vcpu", "ram", "disk", "RamFilter", "CoreFilter", "DiskFilter"])
def test_a_host_that_follows_the_remedy_has_room(name):
    followed = 0
    for host, spec in CASES:
        hosts = TABLE.one(TABLE.find_row((host.host, host.host)))
        check = checks_of(spec).get(name)
        if check is None or check.ask(hosts)[0] or (remedy := check.remedy(next(iter(hosts)))) is None:
            continue
        changed = host
        for change in remedy.changes:
            if isinstance(change, HostChange):
                changed = set_field(changed, change.field, change.value, {})
        again = checks_of(apply_all_to_request(spec, remedy.changes)).get(name)
        assert again is None or again.ask(HostTable.of([changed]).in_the_running())[0], (host, spec, remedy)
        followed += 1
    assert followed > 20
