# SPDX-License-Identifier: Apache-2.0
"""Requests with checks of their own on top of the class that they share."""

import pytest
from tests.unit.scheduler.incremental.compared import Compared, by, fleet, report

from roost.filters.affinity import DifferentHostFilter, SameHostFilter
from roost.filters.compute import ComputeFilter
from roost.filters.retry import RetryFilter
from roost.filters.server_group import ServerGroupAffinityFilter
from roost.scheduler.incremental import engine
from roost.scheduler.incremental.engine import shared_part
from roost.testing import make_spec
from roost.weighers.num_instances import NumInstancesWeigher
from roost.weighers.ram import RAMWeigher

OWN_HOSTS = {
    "none": {},
    "failed on": {"retry": {"hosts": [("h001", "h001"), ("h010", "h010")]}},
    "ignored": {"ignore_hosts": ["H000", "h011"]},
    "failed on and ignored": {"retry": {"hosts": [("h001", "h001")]}, "ignore_hosts": ["h000"]},
    "different": {"scheduler_hints": {"different_host": ["u0", "u1"]}},
    "same": {"scheduler_hints": {"same_host": ["u2", "u5", "u7"]}},
    "of the group": {"instance_group": {"policy": "affinity", "uuid": "g", "hosts": ["h003", "h006"]}},
    "of a legacy group": {"instance_group": {"policy": "legacy", "uuid": "g", "hosts": ["h003", "h006"]}},
    "of an empty group": {"instance_group": {"policy": "affinity", "uuid": "g"}},
    "all ignored": {"ignore_hosts": [f"h{row:03}" for row in range(12)]},
}


@pytest.mark.parametrize("fields", OWN_HOSTS.values(), ids=OWN_HOSTS)
def test_requests_that_differ_in_their_own_hosts_share_a_class(fields):
    assert shared_part(make_spec(**fields)) == make_spec()


def test_what_names_no_hosts_stays_in_the_shared_part():
    spec = make_spec(scheduler_hints={"query": "[]"}, instance_group={"policy": "anti-affinity"})
    assert shared_part(spec) is spec
    spec = make_spec(scheduler_hints={"query": "[]", "same_host": ["u1"]})
    assert dict(shared_part(spec).scheduler_hints) == {"query": ("[]",)}


@pytest.mark.usefixtures("holds_few")
@pytest.mark.parametrize("few_left", [0, 64], ids=["from the top rows", "by weighing all that are left"])
@pytest.mark.parametrize("fields", OWN_HOSTS.values(), ids=OWN_HOSTS)
def test_requests_with_hosts_of_their_own_get_the_answers_of_a_full_scan(fields, few_left, monkeypatch):
    monkeypatch.setattr(engine, "_FEW_LEFT", few_left)
    own = [RetryFilter(), ComputeFilter(), DifferentHostFilter(), SameHostFilter(), ServerGroupAffinityFilter()]
    free_ram_mb = [2000 + 300 * (row * 5 % 7) for row in range(12)]
    table = fleet(12, free_ram_mb=free_ram_mb, instances=[[f"u{row}"] for row in range(12)])
    compared = Compared(table, [*own, ComputeFilter()], [by(RAMWeigher, -1.0), by(NumInstancesWeigher, 0.3)])
    for number in range(6):
        compared.place(make_spec(memory_mb=600), f"i{number}")
        compared.place(make_spec(memory_mb=600, **fields), f"j{number}")
        compared.place(make_spec(memory_mb=2500, **fields), f"k{number}", f"l{number}")
        report(table, number, free_ram_mb=2500 + number, service={"up": number != 4})
