# SPDX-License-Identifier: Apache-2.0
"""Clocks that a test turns."""


class HandClock:
    """Goes forward when it is told to."""

    def __init__(self):
        self.seconds = 1000.0

    def monotonic(self):
        return self.seconds
