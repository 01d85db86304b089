# SPDX-License-Identifier: Apache-2.0
"""What is looked at, a line each, and figures as tables."""

import itertools
import statistics
import sys
import time

TELL_SECONDS = 15


class Checks:
    """Prints each check as it is made, and counts those that failed."""

    def __init__(self):
        self.failed = 0

    def see(self, what, is_right, found=""):
        self.failed += not is_right
        print(f"{'ok  ' if is_right else 'WRONG'} {what}" + (f": {found}" if found != "" else ""), flush=True)


def tell(text):
    """What takes long: to stderr, so that the report can be kept without it."""
    print(f"     ... {text}", file=sys.stderr, flush=True)


def telling(total):
    """A function to be called for each answer of so many: tells how far it is, every fifteen seconds."""
    count, told = itertools.count(1), [time.monotonic()]

    def tell_now_and_then(_):
        done, now = next(count), time.monotonic()
        if now > told[0] + TELL_SECONDS:
            told[0] = now
            tell(f"{done} of {total}")

    return tell_now_and_then


def print_table(title, headings, rows):
    """Aligned columns: words to the left, numbers to the right."""
    cells = [[f"{each:.1f}" if isinstance(each, float) else str(each) for each in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(headings, *cells, strict=True)]
    are_numbers = [all(isinstance(row[index], int | float) for row in rows) for index in range(len(headings))]
    print(f"\n{title}")
    for line in (headings, *cells):
        aligned = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, are_numbers, strict=True)
        ]
        print("  " + "  ".join(aligned).rstrip())
    print(flush=True)


def median(values):
    """The middle value; 0 where there are none."""
    return statistics.median(values) if values else 0.0


def percentile_99(values):
    """The value that one in a hundred exceeds; the largest where there are fewer than a hundred."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] if ordered else 0.0
