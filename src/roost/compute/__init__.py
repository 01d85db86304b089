# SPDX-License-Identifier: Apache-2.0
"""The agent on a host: reports what it has, claims locally, builds and moves servers.

Start reading at `process.py`. `drivers/` has the interface of hypervisors and a fake one, `libvirt/` the real one.
"""
