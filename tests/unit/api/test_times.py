# SPDX-License-Identifier: Apache-2.0
"""Times in answers are in UTC, whatever zone the database's are in."""

from datetime import datetime, timedelta, timezone

import pytest

from roost.api.times import keystone_time, naive_time, utc_text

MOMENT = datetime(2026, 11, 19, 5, 45, 6, 7, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (utc_text, "2026-11-19T04:45:06Z"),
        (naive_time, "2026-11-19T04:45:06.000007"),
        (keystone_time, "2026-11-19T04:45:06.000007Z"),
    ],
)
def test_a_time_is_written_in_utc(write, text):
    assert write(MOMENT) == text
    assert write(None) is None
