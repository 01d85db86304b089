# SPDX-License-Identifier: Apache-2.0
"""spec/filters.md 5.8."""

from roost.filters.all_hosts import AllHostsFilter
from roost.filters.base import applies_to_rebuild
from roost.testing import make_hosts, make_spec


def test_every_host_passes_however_bad_it_is():
    hosts = make_hosts(free_ram_mb=[-512, 0, 4096], service=[{"disabled": True}, {"up": False}, {}])
    assert AllHostsFilter().mask(hosts, make_spec(memory_mb=10**6)).tolist() == [True, True, True]


def test_there_is_one_answer_per_host_in_the_running():
    hosts = make_hosts(4).in_the_running()
    assert len(AllHostsFilter().mask(hosts.take([2, 0]), make_spec())) == 2


def test_it_is_asked_once_per_request():
    assert [AllHostsFilter().run_filter_for_index(index) for index in (0, 1)] == [True, False]


def test_it_does_not_run_on_rebuild():
    assert not applies_to_rebuild(AllHostsFilter())
