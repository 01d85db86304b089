# SPDX-License-Identifier: Apache-2.0
"""What people who run Roost see of it: logs, metrics, health, and what systemd is told."""
