# SPDX-License-Identifier: Apache-2.0
from xml.etree import ElementTree

import pytest

from roost.compute.drivers.base import GuestSpec
from roost.compute.libvirt.domain_xml import Machine, domain_name, read_domain, write_domain
from roost.hosts.guests import Guest
from roost.model.numa import InstanceCell

UUID = "ea1b39d1-092c-49bc-a621-1024c29911a8"
MACHINE = Machine("qemu", "x86_64", "pc")


def domain_of(guest, machine=MACHINE, *others):
    return ElementTree.fromstring(write_domain(guest, machine, *others))


def make_guest(*cells, name="web"):
    return GuestSpec(UUID, name, vcpus=2, memory_mb=512, placement=Guest(cells) if cells else None)


def test_a_guest_has_the_uuid_processors_and_memory_of_its_server():
    domain = domain_of(make_guest())
    assert (domain.get("type"), domain.findtext("uuid"), domain.findtext("vcpu")) == ("qemu", UUID, "2")
    assert (domain.findtext("memory"), domain.find("memory").get("unit")) == ("512", "MiB")
    assert domain.find("os/type").attrib == {"arch": "x86_64", "machine": "pc"}


def test_a_guest_without_a_booking_of_cells_is_pinned_nowhere():
    domain = domain_of(make_guest())
    assert [domain.find(each) for each in ("cpu", "cputune", "numatune", "memoryBacking")] == [None] * 4


def test_libvirt_chooses_the_machine_where_none_is_named():
    assert "machine" not in domain_of(make_guest(), Machine("kvm", "aarch64")).find("os/type").attrib


@pytest.mark.parametrize("name", ["web", "a & <b> \"c\" 'd'", "]]>", "Ω 雲"])
def test_own_guests_are_known_by_their_metadata_and_keep_the_servers_name(name):
    found = read_domain(write_domain(make_guest(name=name), MACHINE))
    assert (found.uuid, found.name, found.is_own) == (UUID, name, True)


def test_characters_that_xml_cannot_hold_are_replaced():
    assert read_domain(write_domain(make_guest(name="a\x00b\x1b"), MACHINE)).name == "a?b?"


def test_servers_of_one_name_are_domains_of_different_names():
    assert domain_of(make_guest()).findtext("name") == domain_name(UUID) == f"roost-{UUID}"


def test_a_domain_of_another_program_is_no_own_guest():
    found = read_domain(
        f"<domain><name>other</name><uuid>{UUID}</uuid><metadata><x:a xmlns:x='urn:x'/></metadata></domain>"
    )
    assert (found.name, found.is_own) == ("other", False)


def test_size_of_a_domain_in_the_units_of_libvirt():
    found = read_domain("<domain><memory unit='KiB'>1048577</memory><vcpu current='1'>2</vcpu></domain>")
    assert (found.memory_mb, found.vcpus) == (1025, 2)


def test_booked_cpus_are_pinned_one_to_one_and_memory_stays_in_the_cell():
    cell = InstanceCell(1, frozenset(), frozenset({0, 1}), 512, cpu_policy="dedicated", cpu_pinning=((0, 6), (1, 7)))
    domain = domain_of(make_guest(cell))
    assert [pin.attrib for pin in domain.iterfind("cputune/vcpupin")] == [
        {"vcpu": "0", "cpuset": "6"},
        {"vcpu": "1", "cpuset": "7"},
    ]
    assert domain.find("numatune/memory").attrib == {"mode": "strict", "nodeset": "1"}
    assert domain.find("cpu/numa/cell").attrib == {"id": "0", "cpus": "0,1", "memory": "512", "unit": "MiB"}


def test_shared_cpus_float_over_all_cpus_of_their_cell():
    cells = [InstanceCell(number, frozenset({number}), frozenset(), 256) for number in (0, 1)]
    domain = domain_of(make_guest(*cells), MACHINE, {0: frozenset({0, 1}), 1: frozenset({2, 3})})
    assert [pin.get("cpuset") for pin in domain.iterfind("cputune/vcpupin")] == ["0,1", "2,3"]
    assert [node.attrib["nodeset"] for node in domain.iterfind("numatune/memnode")] == ["0", "1"]


def test_large_pages_are_asked_for_cell_by_cell():
    small = InstanceCell(0, frozenset({0}), frozenset(), 256, pagesize=4)
    large = InstanceCell(1, frozenset({1}), frozenset(), 256, pagesize=2048)
    pages = domain_of(make_guest(small, large)).findall("memoryBacking/hugepages/page")
    assert [page.attrib for page in pages] == [{"size": "2048", "unit": "KiB", "nodeset": "1"}]


def test_pci_devices_are_read_back_at_the_addresses_they_were_given():
    devices = ["0000:0a:1f.7", "0001:00:02.0"]
    assert read_domain(write_domain(make_guest(), MACHINE, None, devices)).devices == frozenset(devices)


def test_the_processor_of_the_host_is_shown_where_the_mode_says_so():
    assert (
        domain_of(make_guest(), Machine("kvm", "x86_64", "q35", "host-model")).find("cpu").get("mode") == "host-model"
    )
