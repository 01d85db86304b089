# SPDX-License-Identifier: Apache-2.0
"""Small units of work for the tests of operations: nodes n1, n2, ... on hosts h1, h2, ..., and no database."""

from roost.hosts.capacity import ClassCapacity
from roost.ledger.claim import Claim, StrictGroup
from roost.ledger.groups import Group
from roost.ledger.nodes import Node
from roost.ledger.unit_of_work import UnitOfWork
from roost.model.resources import Use

APART = StrictGroup("apart", "anti-affinity")
TOGETHER = StrictGroup("together", "affinity")


def class_capacity(limit, used=0, **parts):
    return ClassCapacity(
        **{"allocated": used, "limit": limit, "max_unit": limit, "min_unit": 1, "step_size": 1} | parts
    )


def node(number, host=None, vcpus=4, is_bare_metal=False, **capacity):
    capacity = {"VCPU": class_capacity(vcpus), "MEMORY_MB": class_capacity(4096)} | capacity
    return Node(
        number, f"n{number}", host or f"h{number}", f"h{number}", is_bare_metal, Use(4096, 100, vcpus), capacity
    )


def unit_of_work(*nodes, groups=()):
    return UnitOfWork(
        nodes, [], [Group(at + 1, each.uuid, each.policy, each.max_server_per_host) for at, each in enumerate(groups)]
    )


def claim(consumer, number, vcpus=1, group=None, **amounts):
    return Claim(consumer, f"n{number}", {"VCPU": vcpus} | amounts, Use(512, 10, vcpus), group=group)


def used(work, number, name="VCPU"):
    return work.nodes[f"n{number}"].capacity[name].allocated
