# SPDX-License-Identifier: Apache-2.0
"""The conductor: asks the scheduler for hosts, has agents build and move servers, and finishes what others left.

Start reading at `process.py`: what a conductor can be asked. `janitor.py` goes on with tasks that have stalled.
"""
