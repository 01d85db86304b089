# SPDX-License-Identifier: Apache-2.0
"""Waiting for what a process does."""

import time


def wait_for(is_so):
    give_up = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.01)
