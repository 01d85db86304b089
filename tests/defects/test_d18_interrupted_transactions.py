# SPDX-License-Identifier: Apache-2.0
"""D18: a transaction that was paused for too long, a killed statement and a conflict in a refresh are retried."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from sqlalchemy import text
from tests.defects.clouds import RAM, TWO, Interrupted, new_group
from tests.flow.cloud import UUID, Cloud, hosts_of, request
from tests.store.test_ledger import add_node, claim, used

from roost.errors import DatabaseConflict, DatabaseUnreachable, NoValidHost
from roost.ledger.ledger import Ledger
from roost.store.schema_upgrade import upgrade

SERVERS = ("postgresql", "mariadb")
WAIT_SECONDS = 20
PAUSED_CLAIM = """
import os, signal, sys
from sqlalchemy import event
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.model.resources import Use
from roost.ledger import ledger
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

address, node, one, two, setting = sys.argv[1:]
engine, real = open_engine(DatabaseOptions(connection=address)), ledger.write_unit_of_work

@event.listens_for(engine, "connect")
def connected(connection, _):
    with connection.cursor() as cursor:
        cursor.execute(setting)
    connection.commit()

def paused(connection, work, now):
    ledger.write_unit_of_work = real
    os.kill(os.getpid(), signal.SIGSTOP)
    real(connection, work, now)

ledger.write_unit_of_work = paused
Ledger(engine).claim([Claim(each, node, {"VCPU": 2}, Use(0, 0, 2)) for each in (one, two)])
"""
IDLE_TIMEOUTS = {
    "postgresql": ("SET idle_in_transaction_session_timeout = '100ms'", 0.1),
    "mariadb": ("SET SESSION idle_transaction_timeout = 1", 1.0),
}
WAITING = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    "mariadb": "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}
KILL = {"postgresql": "SELECT pg_cancel_backend({})", "mariadb": "KILL QUERY {}"}


def prepared(opened, databases, kind):
    address = databases.create(kind)
    engine = opened(address)
    upgrade(engine)
    return address, engine, add_node(engine)


@pytest.mark.parametrize("kind", SERVERS)
def test_d18_a_process_that_is_paused_in_a_transaction_claims_when_it_goes_on(opened, databases, kind):
    address, engine, node = prepared(opened, databases, kind)
    setting, timeout_seconds = IDLE_TIMEOUTS[kind]
    arguments = [address, node, UUID % 1, UUID % 2, setting]
    with subprocess.Popen([sys.executable, "-c", PAUSED_CLAIM, *arguments], stderr=subprocess.PIPE) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), process.stderr.read().decode()
        time.sleep(3 * timeout_seconds)
        os.kill(process.pid, signal.SIGCONT)
        complaints = process.stderr.read().decode()
        assert process.wait(WAIT_SECONDS) == 0, complaints
    assert used(engine, node)["VCPU"] == 4


@pytest.mark.parametrize("kind", SERVERS)
def test_d18_a_claim_whose_statement_is_killed_is_retried(opened, databases, kind):
    _, engine, node = prepared(opened, databases, kind)
    pauses = []
    claiming = threading.Thread(target=Ledger(engine, sleep=pauses.append).claim, args=([claim(node), claim(node)],))
    with engine.connect() as other, engine.connect() as administrator:
        other.execute(text("SELECT id FROM compute_nodes FOR UPDATE"))
        claiming.start()
        administrator.execute(text(KILL[kind].format(waiting_session(administrator, kind))))
        give_up = time.monotonic() + WAIT_SECONDS
        while not pauses:
            assert claiming.is_alive(), "the killed statement was not retried"
            assert time.monotonic() < give_up
            time.sleep(0.01)
    claiming.join(WAIT_SECONDS)
    assert used(engine, node)["VCPU"] == 4


def waiting_session(connection, kind):
    """The session that waits for a lock."""
    give_up = time.monotonic() + WAIT_SECONDS
    while (found := connection.scalar(text(WAITING[kind]))) is None:
        assert time.monotonic() < give_up
        connection.rollback()
        time.sleep(0.15)  # InnoDB renews its list only where it was not read for 0.1 s
    return found


def test_d18_a_conflict_in_a_refresh_is_retried(tmp_path):
    cloud = Cloud(tmp_path, {"a": {}})
    claims = cloud.manager().claims
    replica = claims.replica
    real, errors = replica.refresh, iter([DatabaseConflict("busy"), DatabaseConflict("busy")])

    def refresh(also=()):
        for error in errors:
            raise error
        return real(also)

    replica.refresh = refresh
    assert claims.select(request(), [UUID % 1]).decision.selections[0].host == "a"
    cloud.close()


def fail_once(ledger, name, error):
    """The named read of the ledger raises the error when it is called next."""
    real, errors = getattr(ledger, name), iter([error])

    def read(*arguments):
        for each in errors:
            raise each
        return real(*arguments)

    setattr(ledger, name, read)


@pytest.mark.parametrize("error", [DatabaseUnreachable("away"), DatabaseConflict("busy")], ids=["away", "busy"])
def test_d18_a_database_that_goes_away_after_a_refusal_is_waited_for(tmp_path, error):
    cloud = Cloud(tmp_path, TWO, RAM)
    one, other = cloud.manager(), cloud.manager()
    spec = request(instance_group=new_group())

    def take_the_best_host():
        assert hosts_of(other.claims.select(spec, [UUID % 2])) == ["a"]
        fail_once(cloud.ledger, "read_member_hosts", error)

    one.claims.granter = Interrupted(cloud.ledger, take_the_best_host)
    placement = one.claims.select(spec, [UUID % 1])
    assert hosts_of(placement) == ["b"]
    assert placement.rounds == 2
    cloud.close()


def test_d18_a_database_that_goes_away_before_no_valid_host_is_waited_for(tmp_path):
    cloud = Cloud(tmp_path, {"a": {}})
    claims = cloud.manager().claims
    fail_once(cloud.ledger, "read_holdings", DatabaseUnreachable("away"))
    with pytest.raises(NoValidHost):
        claims.select(request(vcpus=1000), [UUID % 1])
    cloud.close()
