# SPDX-License-Identifier: Apache-2.0
"""Running a service, whatever it does: start, reload and stop by signals, periodic tasks, worker processes."""
