# SPDX-License-Identifier: Apache-2.0
"""D14: a host with more members than its anti-affinity group allows is closed until it is below the limit."""

import pytest
from tests.defects.clouds import node_uuids
from tests.flow.cloud import UUID
from tests.store.test_ledger import new_uuid

from roost.errors import ClaimRejected
from roost.ledger.claim import Claim, StrictGroup


def test_d14_crowded_hosts_stay_closed(make_cloud):
    cloud, group = make_cloud({"h0": {}, "h1": {}}), StrictGroup(new_uuid(), "anti-affinity", 2)
    ledger, nodes = cloud.ledger, node_uuids(cloud.engine)
    with cloud.engine.begin() as connection:
        connection.exec_driver_sql(
            "insert into server_groups (uuid, name, policy, max_server_per_host) values (?, 'g', 'anti-affinity', 2)",
            (group.uuid,),
        )
    for number in (1, 2, 3):
        ledger.claim([Claim(UUID % number, nodes["h0"], {"VCPU": 1})])
        with cloud.engine.begin() as connection:
            connection.exec_driver_sql(
                "insert into server_group_members select id, ? from server_groups", (UUID % number,)
            )
    ledger.claim([Claim(UUID % 9, nodes["h1"], {"VCPU": 1}, group=group)])
    with pytest.raises(ClaimRejected):
        ledger.claim([Claim(UUID % 8, nodes["h0"], {"VCPU": 1}, group=group)])
    ledger.release([UUID % 1])
    with pytest.raises(ClaimRejected, match=r"2 members of the anti-affinity group .* are there; 2 may be"):
        ledger.claim([Claim(UUID % 4, nodes["h0"], {"VCPU": 1}, group=group)])
    ledger.release([UUID % 2])
    ledger.claim([Claim(UUID % 4, nodes["h0"], {"VCPU": 1}, group=group)])
