# SPDX-License-Identifier: Apache-2.0
"""D4: while a member of an anti-affinity group moves, new members find the hosts that are free."""

from tests.defects.clouds import INSTANCE, RAM, new_group
from tests.flow.cloud import UUID, hosts_of, request


def six_hosts(make_cloud):
    return make_cloud({f"h{at}": {"total_usable_ram_mb": 32768 - 1024 * at} for at in range(6)}, RAM)


def test_d4_a_new_member_finds_a_host_while_another_moves(make_cloud):
    cloud, group = six_hosts(make_cloud), new_group()
    loop = cloud.manager().claims
    loop.select(request(instance_group=group), [INSTANCE])
    loop.select(request(instance_group=group, ignore_hosts=("h0",)), [INSTANCE])
    assert hosts_of(loop.select(request(instance_group=group), [UUID % 2])) == ["h2"]
    assert loop.refusals == 0, "the slot of the moving member was not seen"


def test_d4_a_host_that_another_scheduler_filled_meanwhile_is_out_for_the_rest_of_the_request(make_cloud):
    cloud, group = six_hosts(make_cloud), new_group()
    one, two = cloud.manager().claims, cloud.manager().claims
    two.refresh()
    two.replica.refresh = lambda also=(): None  # it never hears of it
    one.select(request(instance_group=group), [INSTANCE])
    two.granter = _Forgetful(cloud.ledger)
    assert hosts_of(two.select(request(instance_group=group), [UUID % 2])) == ["h1"]
    assert two.refusals == 1


def test_d4_two_places_on_two_hosts_are_found_although_both_do_not_fit_on_one(make_cloud):
    """A host that refused the second instance of a request may still take the first."""
    cloud = make_cloud({"h0": {}, "h1": {"total_usable_ram_mb": 30000}}, RAM)
    group = new_group(rules={"max_server_per_host": 2})
    one, two = cloud.manager().claims, cloud.manager().claims
    two.refresh()
    for number, host in ((1, "h0"), (2, "h1")):
        one.select(request(instance_group=group, force_hosts=(host,)), [UUID % number])
    assert sorted(hosts_of(two.select(request(instance_group=group), [UUID % 3, UUID % 4]))) == ["h0", "h1"]


class _Forgetful:
    """A ledger that tells nothing of groups."""

    def __init__(self, ledger):
        self._ledger = ledger

    def __getattr__(self, name):
        return getattr(self._ledger, name)

    def read_group_places(self, group_uuid):
        return self._ledger.read_group_places("unknown")
