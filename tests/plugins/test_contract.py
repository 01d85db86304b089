# SPDX-License-Identifier: Apache-2.0
"""Every registered plugin keeps the contract, and the contract catches those that do not."""

import numpy as np
import pytest

from roost.filters.base import Filter, HostFilter
from roost.plugins.registry import FILTERS, WEIGHERS
from roost.testing import check_filter, check_weigher, make_hosts, make_spec
from roost.weighers.base import HostWeigher, Weigher


@pytest.mark.parametrize("plugin", FILTERS, ids=lambda plugin: plugin.__name__)
def test_a_registered_filter_keeps_the_contract(plugin):
    check_filter(plugin())


@pytest.mark.parametrize("plugin", WEIGHERS, ids=lambda plugin: plugin.__name__)
def test_a_registered_weigher_keeps_the_contract(plugin):
    check_weigher(plugin())


@pytest.mark.parametrize("plugin", [*FILTERS, *WEIGHERS], ids=lambda plugin: plugin.__name__)
def test_a_registered_plugin_is_named_for_what_it_is(plugin):
    assert plugin().name == plugin.__name__


def test_no_two_plugins_share_a_name():
    names = [plugin.__name__ for plugin in (*FILTERS, *WEIGHERS)]
    assert len(set(names)) == len(names)


class LargeHosts(HostFilter):
    """A filter in nova's shape that keeps the contract."""

    def host_passes(self, host_state, spec_obj):
        return host_state.total_usable_ram_mb >= 8192


class FreeMemory(HostWeigher):
    """A weigher in nova's shape that keeps the contract; higher means more free."""

    def _weigh_object(self, host_state, weight_properties):
        return host_state.free_ram_mb


def test_people_s_own_plugins_may_be_checked_in_novas_shape():
    check_filter(LargeHosts())
    check_weigher(FreeMemory())


def test_people_may_bring_their_own_hosts_and_requests():
    check_filter(LargeHosts(), make_hosts(total_usable_ram_mb=[1, 8192]), [make_spec()])
    check_weigher(FreeMemory(), make_hosts(free_ram_mb=[1, 2]), [make_spec()])


class _Rule(Filter):
    """Lets everybody pass."""

    def mask(self, hosts, spec):
        return np.ones(len(hosts), dtype=np.bool_)

    def reason(self, host, spec):
        return "no"


class Undocumented(_Rule):
    __doc__ = None


class NotBool(_Rule):
    """Answers in numbers."""

    def mask(self, hosts, spec):
        return np.ones(len(hosts))


class TooFew(_Rule):
    """Answers for one host less."""

    def mask(self, hosts, spec):
        return np.ones(len(hosts) - 1, dtype=np.bool_)


class LooksAtOthers(_Rule):
    """Keeps the hosts above the average of all."""

    def mask(self, hosts, spec):
        return hosts.free_ram_mb >= hosts.free_ram_mb.mean()


class LooksAtTheOrder(_Rule):
    """Keeps every second host."""

    def mask(self, hosts, spec):
        return np.arange(len(hosts)) % 2 == 0


class WithoutReason(_Rule):
    """Says no and not why."""

    def mask(self, hosts, spec):
        return np.zeros(len(hosts), dtype=np.bool_)

    def reason(self, host, spec):
        return ""


class ReasonOfTwoLines(WithoutReason):
    """Says too much."""

    def reason(self, host, spec):
        return "one\ntwo"


class RejectsUnasked(WithoutReason):
    """Rejects requests that it does not apply to."""

    def applies_to(self, spec):
        return False


class Changes(_Rule):
    """Writes to the hosts."""

    def mask(self, hosts, spec):
        hosts.table.numbers["free_ram_mb"][0] -= 1
        return super().mask(hosts, spec)


class ReadsTooLittleForSome(_Rule):
    """Looks at two columns, and says of some requests that it looks at one."""

    reads = frozenset({"free_ram_mb", "is_up"})

    def reads_for(self, spec):
        return frozenset({"free_ram_mb"}) if spec.availability_zone else self.reads

    def mask(self, hosts, spec):
        return (hosts.free_ram_mb > -10000) | hosts.is_up


class AnswersOtherwise(_Rule):
    """Tells the pipeline something else than its mask."""

    def answers(self, hosts, spec):
        return ~self.mask(hosts, spec)


class OddCeilings(_Rule):
    """Has one ceiling for all."""

    def ceilings(self, hosts, spec):
        return {"memory_mb": np.ones(1)}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Undocumented, "docstring"),
        (NotBool, "float64, not bool"),
        (TooFew, "answers for 6 hosts"),
        (LooksAtOthers, "another answer when it is alone"),
        (LooksAtTheOrder, "the order of hosts changes its answers"),
        (WithoutReason, "no reason for rejecting"),
        (ReasonOfTwoLines, "not one line"),
        (RejectsUnasked, "rejects although it does not apply"),
        (Changes, "changed the hosts"),
        (OddCeilings, "1 ceilings memory_mb for 6 hosts"),
        (AnswersOtherwise, "host a gets another answer when it is asked alone"),
        (ReadsTooLittleForSome, "looks at is_up, which its `reads` does not name"),
    ],
)
def test_a_filter_that_breaks_the_contract_is_caught(rule, message):
    with pytest.raises(AssertionError, match=message):
        check_filter(rule())


class NotANumber(Weigher):
    """Gives no number; higher means nothing."""

    def weigh(self, hosts, spec):
        return np.full(len(hosts), np.nan)


class OneWeight(Weigher):
    """Gives one number for all."""

    def weigh(self, hosts, spec):
        return np.ones(1)


class Ranks(Weigher):
    """Gives each host its place among all."""

    def weigh(self, hosts, spec):
        return np.arange(len(hosts), dtype=float)


class OddMultipliers(Weigher):
    """Has two multipliers."""

    def weigh(self, hosts, spec):
        return hosts.free_ram_mb

    def multipliers(self, hosts):
        return np.ones(2)


class ChangesToo(Weigher):
    """Writes to the hosts."""

    def weigh(self, hosts, spec):
        hosts.table.numbers["free_ram_mb"][0] -= 1
        return hosts.vcpus_total


class OtherReader(Weigher):
    """Free memory in GiB, but in MiB where one host is read alone; higher means more."""

    def weigh(self, hosts, spec):
        return hosts.free_ram_mb / 1024

    def reader(self, table, spec):
        return table.numbers["free_ram_mb"].item


class LooseReader(Weigher):
    """A third of the free memory, rounded otherwise where one host is read alone; higher means more."""

    def weigh(self, hosts, spec):
        return hosts.free_ram_mb / 3

    def reader(self, table, spec):
        return lambda row: table.numbers["free_ram_mb"].item(row) * (1 / 3)


class BuiltOnColumn(Weigher):
    """Names a column and gives other numbers; higher means more."""

    column = "free_ram_mb"

    def weigh(self, hosts, spec):
        return hosts.free_ram_mb - 7

    def reader(self, table, spec):
        return self.bounded(table.numbers[self.column].item)


class UnboundedReader(Weigher):
    """Is bounded, but not where one host is read alone; higher means more."""

    minval = 0

    def weigh(self, hosts, spec):
        return hosts.free_ram_mb

    def reader(self, table, spec):
        return table.numbers["free_ram_mb"].item


class WeighsUnasked(Weigher):
    """Has something to say about requests that it does not apply to; higher means more."""

    def applies_to(self, spec):
        return False

    def weigh(self, hosts, spec):
        return hosts.free_ram_mb


class ForgetfulWeigher(Weigher):
    """Looks at two columns, and says that it looks at one; higher means more."""

    reads = frozenset({"free_ram_mb"})

    def weigh(self, hosts, spec):
        return hosts.free_ram_mb + hosts.num_io_ops


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (OtherReader, "`reader` gives 8192.0 for host a, `weigh` gives 8.0"),
        (LooseReader, "`reader` gives"),
        (BuiltOnColumn, "`reader` gives 8192.0 for host a, `weigh` gives 8185.0"),
        (UnboundedReader, "`reader` gives -512.0 for host b, `weigh` gives 0.0"),
        (WeighsUnasked, "although it does not apply"),
        (ForgetfulWeigher, "looks at num_io_ops, which its `reads` does not name"),
        (NotANumber, "not all finite numbers"),
        (OneWeight, "numbers for 6 hosts"),
        (Ranks, "the order of hosts changes its answers"),
        (OddMultipliers, "odd multipliers"),
        (ChangesToo, "changed the hosts"),
    ],
)
def test_a_weigher_that_breaks_the_contract_is_caught(rule, message):
    with pytest.raises(AssertionError, match=message):
        check_weigher(rule())
