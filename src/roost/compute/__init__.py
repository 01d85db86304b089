# SPDX-License-Identifier: Apache-2.0
"""The agent on a host: reports what it has, claims locally, builds and moves servers.

Start reading at `agent.py`. `service.py` assembles the process, `drivers/` has the hypervisors.
"""
