# SPDX-License-Identifier: Apache-2.0
"""The driver on a libvirt of a few lines, which fails at will; on real daemons it is tested by make interop."""

import pytest
from tests.unit.compute.libvirt.test_libvirt_capabilities import TWO_CELLS

from roost.compute.libvirt import connection
from roost.compute.libvirt.connection import load_library
from roost.compute.libvirt.driver import LibvirtDriver
from roost.compute.libvirt.options import LibvirtOptions
from roost.errors import HypervisorError

LOST, REFUSED = 7, 10


class LibvirtError(Exception):
    """An error with libvirt's numbers."""

    def __init__(self, text, domain=REFUSED):
        super().__init__(text)
        self.domain = domain

    def get_error_domain(self):
        return self.domain


class Library:
    """Stands for the module libvirt: `failures` are raised by the next calls, one each; counts what was opened."""

    libvirtError = LibvirtError  # noqa: N815 - libvirt's name
    VIR_FROM_RPC, VIR_FROM_REMOTE = LOST, 13
    VIR_CPU_COMPARE_INCOMPATIBLE = 0
    VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES = 1

    def __init__(self):
        self.failures, self.opened, self.cannot_open, self.compared = [], [], "", 1

    def open(self, uri):
        if self.cannot_open:
            raise LibvirtError(self.cannot_open, LOST)
        self.opened.append(uri)
        return OpenConnection(self)


class OpenConnection:
    def __init__(self, library):
        self.library = library

    def listAllDomains(self):
        if self.library.failures:
            raise self.library.failures.pop(0)
        return []

    def getCapabilities(self):
        return TWO_CELLS

    def getHostname(self):
        return "h1"

    def getType(self):
        return "QEMU"

    def getVersion(self):
        return 7002022

    def getInfo(self):
        return ["x86_64", 24576, 6, 2600, 2, 1, 2, 1]

    def baselineCPU(self, cpus, flags):
        return "<cpu><feature policy='require' name='avx2'/><feature policy='require' name='aes'/></cpu>"

    def compareCPU(self, xml):
        return self.library.compared

    def close(self):
        pass


@pytest.fixture
def library(monkeypatch):
    made = Library()
    for module in ("connection", "driver"):
        monkeypatch.setattr(f"roost.compute.libvirt.{module}.load_library", lambda: made)
    return made


def make_driver(**options):
    return LibvirtDriver(LibvirtOptions(**options))


def test_a_lost_connection_is_opened_again_and_the_operation_repeated(library):
    driver = make_driver()
    driver.open()
    library.failures = [LibvirtError("Cannot write data: Broken pipe", LOST)]
    assert driver.list_guests() == []
    assert len(library.opened) == 2


def test_a_connection_that_is_lost_twice_is_an_error_and_the_next_call_opens_it_again(library):
    driver = make_driver()
    library.failures = [LibvirtError("Cannot write data: Broken pipe", LOST)] * 2
    with pytest.raises(HypervisorError, match="cannot list guests: Cannot write data: Broken pipe"):
        driver.list_guests()
    assert driver.list_guests() == []
    assert len(library.opened) == 3


def test_an_operation_that_is_refused_is_not_repeated(library):
    driver = make_driver()
    library.failures = [LibvirtError("internal error:\n  no such thing")]
    with pytest.raises(HypervisorError, match=r"^cannot list guests: internal error: no such thing$"):
        driver.list_guests()
    assert len(library.opened) == 1


def test_a_daemon_that_is_not_there_is_told_with_its_uri(library):
    library.cannot_open = "Failed to connect socket"
    with pytest.raises(HypervisorError, match="no connection to qemu:///system: Failed to connect socket"):
        make_driver().open()


def test_a_missing_module_is_told_with_what_to_install(monkeypatch):
    def fail(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(connection.importlib, "import_module", fail)
    with pytest.raises(HypervisorError, match=r"install roost\[libvirt\]"):
        load_library.__wrapped__()


def test_a_host_reports_what_the_machine_has(library, tmp_path):
    found = make_driver(host_disk_path=str(tmp_path / "not" / "there")).describe()
    assert (found.hostname, found.vcpus, found.memory_mb, len(found.numa.cells)) == ("h1", 6, 24576, 2)
    assert found.local_gb >= found.disk_available_least


def test_totals_of_the_options_replace_the_machines_and_hide_its_numa_cells(library):
    found = make_driver(host_vcpus=2, host_memory_mb=1024, host_disk_gb=0).describe()
    assert (found.vcpus, found.memory_mb, found.local_gb, found.numa) == (2, 1024, 0, None)


def test_traits_are_those_of_the_processor_that_guests_see(library):
    assert make_driver().describe().traits == {"HW_CPU_X86_AVX2", "HW_CPU_X86_AESNI"}
    assert make_driver(virt_type="qemu").describe().traits == frozenset()
    assert make_driver(cpu_mode="none").describe().traits == frozenset()


@pytest.mark.parametrize(
    ("options", "uri"),
    [
        ({}, "qemu+tcp://h1/system"),
        ({"live_migration_inbound_addr": "fd00::1"}, "qemu+tcp://[fd00::1]/system"),
        ({"live_migration_uri": "qemu+tls://%s/system"}, "qemu+tls://h1/system"),
        ({"connection_uri": "qemu+ssh://h9/system"}, "qemu+ssh://h9/system"),
        (
            {"connection_uri": "qemu+unix:///session?socket=/run/a/libvirt-sock"},
            "qemu+unix:///session?socket=/run/a/libvirt-sock",
        ),
    ],
)
def test_the_address_at_which_other_hosts_reach_this_one(library, options, uri):
    assert make_driver(**options).migration_address()["uri"] == uri


@pytest.mark.parametrize(
    ("difference", "message"),
    [
        ({}, "is this host"),
        ({"host_uuid": "other", "arch": "aarch64"}, "arch of the guest's host is aarch64, and x86_64 here"),
        ({"host_uuid": "other", "virt_type": "qemu"}, "virt_type of the guest's host is qemu, and kvm here"),
        ({"host_uuid": "other", "hypervisor_version": 8000000}, "8000000, which is newer than 7002022 here"),
    ],
)
def test_guests_of_a_host_that_differs_are_refused(library, difference, message):
    driver = make_driver()
    with pytest.raises(HypervisorError, match=message):
        driver.check_migration_source({**driver.migration_address(), **difference})


def test_guests_of_a_better_processor_are_refused(library):
    driver = make_driver()
    source = {**driver.migration_address(), "host_uuid": "other"}
    driver.check_migration_source(source)
    library.compared = library.VIR_CPU_COMPARE_INCOMPATIBLE
    with pytest.raises(HypervisorError, match="lacks features"):
        driver.check_migration_source(source)


def test_guests_of_another_kind_of_hypervisor_are_refused(library):
    with pytest.raises(HypervisorError, match="has no libvirt"):
        make_driver().check_migration_source({"type": "fake", "host": "a"})
