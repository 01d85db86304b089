# SPDX-License-Identifier: Apache-2.0
from xml.etree import ElementTree

import pytest

from roost.compute.libvirt.capabilities import features_of, parse_cpus, read_capabilities, traits_of
from roost.hosts.numa_cells import PagePool

TWO_CELLS = """<capabilities><host>
  <uuid>b64f287b-af6e-406e-b9ed-8c4601151a6b</uuid>
  <cpu>
    <arch>x86_64</arch><model>Skylake-Server-IBRS</model><vendor>Intel</vendor>
    <topology sockets='1' dies='1' cores='2' threads='2'/>
    <maxphysaddr mode='emulate' bits='46'/>
    <feature name='vmx'/><feature name='avx2'/><feature name='not-a-trait'/>
  </cpu>
  <topology><cells num='2'>
    <cell id='0'>
      <memory unit='KiB'>16777216</memory>
      <pages unit='KiB' size='4'>4063232</pages><pages unit='KiB' size='2048'>256</pages>
      <cpus num='4'>
        <cpu id='0' socket_id='0' core_id='0' siblings='0,4'/><cpu id='1' socket_id='0' core_id='1' siblings='1,5'/>
        <cpu id='4' socket_id='0' core_id='0' siblings='0,4'/><cpu id='5' socket_id='0' core_id='1' siblings='1,5'/>
      </cpus>
    </cell>
    <cell id='1'>
      <memory unit='GiB'>8</memory>
      <cpus num='2'>
        <cpu id='2' socket_id='1' core_id='0' siblings='2'/><cpu id='3' socket_id='1' core_id='1' siblings='3'/>
      </cpus>
    </cell>
  </cells></topology>
</host>
<guest><os_type>hvm</os_type><arch name='i686'><domain type='qemu'/></arch></guest>
<guest><os_type>hvm</os_type><arch name='x86_64'><domain type='qemu'/><domain type='kvm'/></arch></guest>
</capabilities>"""
NO_CELLS = "<capabilities><host><cpu><arch>aarch64</arch></cpu></host></capabilities>"


def test_the_processor_is_described_with_novas_keys():
    found = read_capabilities(TWO_CELLS).cpu_info
    assert found == {
        "arch": "x86_64",
        "model": "Skylake-Server-IBRS",
        "vendor": "Intel",
        "topology": {"cells": 2, "sockets": 1, "cores": 2, "threads": 2},
        "maxphysaddr": {"mode": "emulate", "bits": 46},
        "features": ["avx2", "not-a-trait", "vmx"],
    }


def test_each_kind_of_guest_is_a_supported_instance():
    assert read_capabilities(TWO_CELLS).supported_instances == (
        ("i686", "qemu", "hvm"),
        ("x86_64", "qemu", "hvm"),
        ("x86_64", "kvm", "hvm"),
    )


def test_numa_cells_have_their_cpus_and_memory_in_mib():
    first, second = read_capabilities(TWO_CELLS).numa.cells
    assert (first.id, first.cpuset, first.pcpuset, first.memory) == (0, {0, 1, 4, 5}, {0, 1, 4, 5}, 16384)
    assert (second.id, second.cpuset, second.memory, second.socket) == (1, {2, 3}, 8192, 1)


def test_threads_of_a_core_are_siblings_and_single_cpus_have_none():
    first, second = read_capabilities(TWO_CELLS).numa.cells
    assert first.siblings == ({0, 4}, {1, 5})
    assert second.siblings == ()


def test_page_pools_hold_the_number_of_pages_of_each_size():
    first, _ = read_capabilities(TWO_CELLS).numa.cells
    assert first.mempages == (PagePool(4, 4063232), PagePool(2048, 256))


def test_a_host_without_cells_has_no_topology():
    assert read_capabilities(NO_CELLS).numa is None


def test_capabilities_without_a_processor_are_refused():
    with pytest.raises(ValueError, match="no processor"):
        read_capabilities("<capabilities><host/></capabilities>")


def test_features_become_traits_by_the_names_of_os_traits():
    assert traits_of(["pni", "sse4.1", "aes", "not-a-trait"]) == {
        "HW_CPU_X86_SSE3",
        "HW_CPU_X86_SSE41",
        "HW_CPU_X86_AESNI",
    }


def test_virtualisation_is_a_trait_under_its_old_and_its_new_name():
    assert traits_of(["vmx"]) == {"HW_CPU_X86_VMX", "HW_CPU_X86_INTEL_VMX"}


def test_a_disabled_feature_is_none():
    cpu = ElementTree.fromstring(
        "<cpu><feature policy='require' name='avx'/><feature policy='disable' name='sse'/></cpu>"
    )
    assert features_of(cpu) == {"avx"}


@pytest.mark.parametrize(("text", "cpus"), [("3", {3}), ("0-2", {0, 1, 2}), ("0-1,8", {0, 1, 8})])
def test_a_list_of_cpus(text, cpus):
    assert parse_cpus(text) == cpus
