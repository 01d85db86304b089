# SPDX-License-Identifier: Apache-2.0
"""D15: forced onto a host of its own group, a request is refused once, with the reason."""

import pytest
from tests.defects.clouds import INSTANCE, new_group
from tests.flow.cloud import UUID, request

from roost.errors import NoValidHost


def test_d15_forced_onto_a_host_of_its_group(make_cloud):
    cloud, group = make_cloud({f"h{at}": {} for at in range(3)}), new_group()
    loop = cloud.manager().claims
    loop.select(request(instance_group=group, force_hosts=("h0",)), [INSTANCE])
    with pytest.raises(NoValidHost) as caught:
        loop.select(request(instance_group=group, force_hosts=("h0",)), [UUID % 2])
    reason = f"1 members of the anti-affinity group {group.uuid} are there; 1 may be"
    assert str(caught.value.message) == f"0 of 3 hosts fit: 2 force_hosts, 1 server_group ({reason})"
    assert loop.refusals == 1


def test_d15_hosts_that_the_request_ignores_are_counted_apart(make_cloud):
    cloud, group = make_cloud({f"h{at}": {} for at in range(3)}), new_group()
    loop = cloud.manager().claims
    loop.select(request(instance_group=group, force_hosts=("h0",)), [INSTANCE])
    with pytest.raises(NoValidHost, match=r"1 ignore_hosts, .*1 server_group \(1 members"):
        loop.select(request(instance_group=group, force_hosts=("h0",), ignore_hosts=("h2",)), [UUID % 2])
