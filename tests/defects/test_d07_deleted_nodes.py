# SPDX-License-Identifier: Apache-2.0
"""D7: a node that is deleted between choice and claim costs one more round."""

from tests.defects.clouds import INSTANCE, RAM, THREE
from tests.flow.cloud import hosts_of, request

from roost.records.reports import delete_node


def test_d7_a_node_deleted_meanwhile_costs_a_round(make_cloud):
    cloud = make_cloud(THREE, RAM)
    loop = cloud.manager().claims
    loop.refresh()
    delete_node(cloud.engine, "a")
    placement = loop.select(request(), [INSTANCE])
    assert hosts_of(placement) == ["b"]
    assert placement.rounds == 2


def test_d7_so_does_the_target_of_a_move(make_cloud):
    cloud = make_cloud(THREE, RAM)
    loop = cloud.manager().claims
    loop.select(request(), [INSTANCE])
    delete_node(cloud.engine, "b")
    assert hosts_of(loop.select(request(ignore_hosts=("a",)), [INSTANCE])) == ["c"]
