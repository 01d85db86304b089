# SPDX-License-Identifier: Apache-2.0
"""Hosts that libvirt manages, QEMU with KVM or without: start reading at `driver.py`.

`domain_xml.py` and `capabilities.py` read and write libvirt's XML and do no I/O.
"""
