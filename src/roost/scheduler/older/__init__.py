# SPDX-License-Identifier: Apache-2.0
"""The parts of `older_methods.py`: building, resizing and live migration as schedulers of Icehouse and Juno did them.

Later releases moved all three to the conductor; the scheduler chooses hosts and tells nobody but its caller.
"""
