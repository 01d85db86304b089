# SPDX-License-Identifier: Apache-2.0
"""The conductor: asks the scheduler for hosts, has agents build and move servers, and finishes what others left.

Start reading at `manager.py`. `service.py` assembles the process, `janitor.py` goes on with tasks that have stalled.
"""
