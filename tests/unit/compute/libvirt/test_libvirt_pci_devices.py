# SPDX-License-Identifier: Apache-2.0
import pytest

from roost.compute.libvirt.driver import HostDevice, choose_devices, make_pools, read_device, read_rules
from roost.errors import BadInput, HypervisorError

VIRTUAL_FUNCTION = """<device><name>pci_0000_0a_10_1</name><capability type='pci'>
<domain>0</domain><bus>10</bus><slot>16</slot><function>1</function>
<product id='0x10ED'>82599 Virtual Function</product><vendor id='0x8086'>Intel</vendor>
<capability type='phys_function'><address domain='0x0000' bus='0x0a' slot='0x00' function='0x0'/></capability>
<numa node='1'/></capability></device>"""
PORTS = [HostDevice(f"0000:0a:10.{number}", "8086", "10ed", "type-VF", 1) for number in range(3)]
RULES = read_rules(['{"vendor_id": "8086", "product_id": "10ED", "physical_network": "blue"}'])


def test_a_virtual_function_is_read_with_its_address_and_cell():
    assert read_device(VIRTUAL_FUNCTION) == PORTS[1]


@pytest.mark.parametrize(
    ("inner", "kind"), [("", "type-PCI"), ("<capability type='virt_functions' maxCount='63'/>", "type-PF")]
)
def test_kinds_of_devices_by_novas_names(inner, kind):
    text = "<device><capability type='pci'><bus>1</bus><vendor id='0x1'/><product id='0x2'/>%s</capability></device>"
    assert read_device(text % inner).kind == kind


def test_bridges_and_other_devices_are_left_out():
    bridge = "<device><capability type='pci'><capability type='pci-bridge'/></capability></device>"
    assert read_device(bridge) is None
    assert read_device("<device><capability type='usb'/></device>") is None


def test_equal_devices_are_one_pool_with_the_tags_of_their_rule():
    (pool,) = make_pools(PORTS, RULES)
    assert pool.to_dict() == {
        "vendor_id": "8086",
        "product_id": "10ed",
        "dev_type": "type-VF",
        "numa_node": 1,
        "physical_network": "blue",
        "count": 3,
    }


def test_devices_that_no_rule_admits_are_not_offered():
    assert make_pools(PORTS, ()) == ()
    assert make_pools(PORTS, read_rules(['{"address": "0000:0b:*"}'])) == ()


def test_an_address_may_be_a_pattern():
    (pool,) = make_pools(PORTS, read_rules(['{"address": "0000:0A:10.[12]"}']))
    assert pool.count == 2


def test_a_guest_gets_devices_that_no_other_guest_has():
    (pool,) = make_pools(PORTS, RULES)
    assert choose_devices([pool.with_count(1)] * 2, PORTS, RULES, {"0000:0a:10.0"}) == [
        "0000:0a:10.1",
        "0000:0a:10.2",
    ]


def test_booked_devices_that_are_in_use_are_an_error():
    (pool,) = make_pools(PORTS, RULES)
    with pytest.raises(HypervisorError, match="3 PCI devices 8086:10ed are booked and 2"):
        choose_devices([pool], PORTS, RULES, {"0000:0a:10.0"})


@pytest.mark.parametrize("line", ["{", "[]", '{"vendor_id": 8086}', '{"physical_network": "blue"}'])
def test_a_rule_that_names_no_device_is_bad_input(line):
    with pytest.raises(BadInput, match="device_spec"):
        read_rules([line])
