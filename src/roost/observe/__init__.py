# SPDX-License-Identifier: Apache-2.0
"""What operators see of a service: logs, metrics, health pages, notifications to systemd."""
