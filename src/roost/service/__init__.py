# SPDX-License-Identifier: Apache-2.0
"""How services live: tasks that repeat, signals, worker processes. Knows nothing of what they do."""
