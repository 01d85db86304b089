# SPDX-License-Identifier: Apache-2.0
"""Strategies of hosts and tables in which the amounts, services and aggregates vary."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from roost.hosts import HostRecord, HostTable
from roost.model import Aggregate, Service

RATIOS = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 16.0])
METADATA = st.dictionaries(
    st.sampled_from(["availability_zone", "ssd", "ram_weight_multiplier", "cpu_weight_multiplier", "other"]),
    st.sampled_from(["az1", "az1,az2", "az2 , nova", "true", "2", "-1.5", "bogus", ""]),
    max_size=3,
)
SERVICES = st.builds(
    Service,
    disabled=st.booleans(),
    forced_down=st.booleans(),
    up=st.sampled_from([None, True, False]),
    seconds_since_seen=st.sampled_from([None, 0.0, 60.0, 61.0, -61.0]),
)


@st.composite
def host_records(draw: Any, name: str = "host", pool: list[Aggregate] | None = None) -> HostRecord:
    """One host; free amounts may be negative or above the total. Its aggregates are drawn from `pool`."""
    ram_mb, disk_gb = draw(st.integers(0, 4096)), draw(st.integers(0, 50))
    aggregates = pool if pool is not None else [Aggregate("a", draw(METADATA), id=1)]
    return HostRecord(
        host=name,
        node=draw(st.sampled_from(["", "n1", "n2"])),
        total_usable_ram_mb=ram_mb,
        free_ram_mb=draw(st.integers(-1024, 4096)),
        total_usable_disk_gb=disk_gb,
        free_disk_mb=draw(st.integers(-2048, 51200)),
        vcpus_total=draw(st.integers(0, 8)),
        vcpus_used=draw(st.integers(0, 20)),
        cpu_allocation_ratio=draw(RATIOS),
        ram_allocation_ratio=draw(RATIOS),
        disk_allocation_ratio=draw(RATIOS),
        num_instances=draw(st.integers(0, 60)),
        num_io_ops=draw(st.integers(0, 10)),
        service=draw(SERVICES),
        aggregates=tuple(draw(st.lists(st.sampled_from(aggregates), unique_by=lambda each: each.id, max_size=3))),
    )


@st.composite
def host_tables(draw: Any, min_size: int = 1, max_size: int = 8) -> HostTable:
    """A table of `min_size` to `max_size` hosts that share three aggregates."""
    pool = [Aggregate(f"agg{number}", draw(METADATA), id=number) for number in range(1, 4)]
    count = draw(st.integers(min_size, max_size))
    return HostTable.of([draw(host_records(f"host{number}", pool)) for number in range(count)])
