# SPDX-License-Identifier: Apache-2.0
"""What a repeated live migration finds after an interrupted one."""

import pytest
from tests.unit.compute.libvirt.test_libvirt_driver import Library, LibvirtError

from roost.compute.libvirt.connection import migrate
from roost.errors import HypervisorError

UUID = "ea1b39d1-092c-49bc-a621-1024c29911a8"
RUNNING, PAUSED = 1, 3
TARGET = {"uri": "qemu+tcp://h2/system", "migrate_uri": "tcp://h2", "listen_address": "h2"}


class Domain:
    """A domain in a state; notes the flags of migrations."""

    def __init__(self, state):
        self._state, self.migrations = state, []

    def state(self):
        return [self._state, 1]

    def migrate3(self, peer, where, flags):
        self.migrations.append((where, flags))


class Peer(Library):
    """A target that has a domain, or None."""

    VIR_ERR_NO_DOMAIN, VIR_DOMAIN_RUNNING = 42, RUNNING
    VIR_MIGRATE_LIVE, VIR_MIGRATE_UNDEFINE_SOURCE, VIR_MIGRATE_PERSIST_DEST, VIR_MIGRATE_AUTO_CONVERGE = 1, 2, 4, 8
    VIR_MIGRATE_PARAM_URI, VIR_MIGRATE_PARAM_LISTEN_ADDRESS = "migrate_uri", "listen_address"

    domain = None

    def open(self, uri):
        return self

    def lookupByUUIDString(self, uuid):
        if self.domain is None:
            raise NoDomain("no domain")
        return self.domain

    def close(self):
        pass


class NoDomain(LibvirtError):
    def get_error_code(self):
        return Peer.VIR_ERR_NO_DOMAIN


@pytest.fixture
def peer(monkeypatch):
    made = Peer()
    monkeypatch.setattr("roost.compute.libvirt.connection.load_library", lambda: made)
    return made


def test_a_guest_moves_with_its_definition_and_none_is_left_here(peer):
    here = Domain(RUNNING)
    assert migrate(UUID, here, TARGET, slows_down=False) is False
    assert here.migrations == [({"migrate_uri": "tcp://h2", "listen_address": "h2"}, 1 | 2 | 4)]


def test_a_guest_is_slowed_down_only_where_that_is_permitted(peer):
    here = Domain(RUNNING)
    migrate(UUID, here, TARGET, slows_down=True)
    assert here.migrations[0][1] & Peer.VIR_MIGRATE_AUTO_CONVERGE


def test_a_guest_that_has_moved_already_is_left_there(peer):
    peer.domain = Domain(RUNNING)
    assert migrate(UUID, None, TARGET, slows_down=False) is False


def test_a_paused_guest_that_runs_on_the_target_has_to_be_removed_here(peer):
    peer.domain, here = Domain(RUNNING), Domain(PAUSED)
    assert migrate(UUID, here, TARGET, slows_down=False) is True
    assert here.migrations == []


def test_a_guest_that_runs_on_both_hosts_is_told_and_neither_is_touched(peer):
    peer.domain, here = Domain(RUNNING), Domain(RUNNING)
    with pytest.raises(HypervisorError, match=r"runs here and on qemu\+tcp://h2/system"):
        migrate(UUID, here, TARGET, slows_down=False)
    assert here.migrations == []


def test_a_guest_that_is_on_neither_host_is_told(peer):
    with pytest.raises(HypervisorError, match="neither on this host nor running on"):
        migrate(UUID, None, TARGET, slows_down=False)
