# SPDX-License-Identifier: Apache-2.0
"""D3: a database of the version before is upgraded with its claims; schedulers of that version cannot write to it."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError

from roost.hosts.guests import Guest
from roost.hosts.pci import pools_from_json
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.store import schema_upgrade
from roost.store.schema_upgrade import upgrade

CONSUMER, SECOND, NODE = (f"6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e0{digit}" for digit in "123")
POOLS = '[{"vendor_id": "10de", "product_id": "1eb8", "numa_node": null, "count": 1}]'
OLD_ROWS = (
    f"INSERT INTO compute_nodes (id, uuid, host, hypervisor_hostname, vcpus, memory_mb, free_ram_mb, pci_stats)"
    f" VALUES (1, '{NODE}', 'a', 'a', 8, 1024, 1024, '{POOLS}')",
    "INSERT INTO inventories (node_id, resource_class, total, used) VALUES (1, 'VCPU', 8, 2)",
    f"INSERT INTO consumers (uuid, kind) VALUES ('{CONSUMER}', 'instance')",
    f"INSERT INTO allocations (consumer_uuid, node_id, resource_class, used) VALUES ('{CONSUMER}', 1, 'VCPU', 2)",
    "INSERT INTO changes (subject, subject_key) VALUES ('compute_nodes', '1')",
)


@pytest.fixture
def upgraded(empty, tmp_path, monkeypatch):
    """A database that the version before has filled, upgraded."""
    with monkeypatch.context() as patch:
        for revision in ("r0001", "r0002"):
            (found,) = schema_upgrade.REVISIONS.glob(f"{revision}*.py")
            (tmp_path / found.name).write_text(found.read_text())
        patch.setattr(schema_upgrade, "REVISIONS", tmp_path)
        upgrade(empty)
    with empty.begin() as connection:
        for statement in OLD_ROWS:
            connection.execute(text(statement))
    assert upgrade(empty)[1].is_current
    return empty


def test_d3_claims_survive_the_upgrade_and_devices_can_be_claimed(upgraded):
    ledger = Ledger(upgraded)
    node_uuid = NODE
    assert ledger.read_allocations([CONSUMER]) == {CONSUMER: {node_uuid: {"VCPU": 2}}}
    guest = Guest(devices=pools_from_json([{"vendor_id": "10de", "product_id": "1eb8", "count": 1}]))
    ledger.claim([Claim(SECOND, node_uuid, {"VCPU": 1}, guest=guest)])
    with upgraded.connect() as connection:
        assert connection.scalar(text("SELECT pci_stats FROM compute_nodes")) == "[]"
    assert ledger.release([CONSUMER, SECOND]) == 2
    with upgraded.connect() as connection:
        assert '"count":1' in connection.scalar(text("SELECT pci_stats FROM compute_nodes"))


def test_d3_a_scheduler_of_the_version_before_cannot_write(upgraded):
    with pytest.raises((IntegrityError, OperationalError), match="token"), upgraded.begin() as connection:
        connection.execute(text(OLD_ROWS[-1]))


def test_d3_a_scheduler_of_the_version_before_does_not_start(upgraded, tmp_path, monkeypatch):
    monkeypatch.setattr(schema_upgrade, "REVISIONS", tmp_path)
    with pytest.raises(Exception, match="made by a newer Roost") as raised:
        schema_upgrade.ensure_current(upgraded)
    assert "install that version here too" in str(raised.value.hint)
