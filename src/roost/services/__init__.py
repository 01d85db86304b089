# SPDX-License-Identifier: Apache-2.0
"""To run a process, whatever it does: signals, periodic tasks, worker processes, logs, metrics, health.

Start at `lifecycle.py`.
"""
