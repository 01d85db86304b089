# SPDX-License-Identifier: Apache-2.0
"""A whole cloud on one machine, a process each, without systemd: what `roost cluster ...` does.

| module | what it holds |
| --- | --- |
| `control.py` | start, stop, restart, status |
| `plan.py` | which processes a cluster has, in which order, with which configuration |
| `process.py` | a process that outlives the command that started it |
| `state_folder.py` | the folder of a cluster: what it consists of, pid files, logs |
| `private_servers.py` | PostgreSQL and RabbitMQ with their data in one folder, on loopback |
"""
