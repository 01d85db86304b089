# SPDX-License-Identifier: Apache-2.0
"""Times in answers are in UTC, whatever zone the database's are in."""

from datetime import datetime, timedelta, timezone

import pytest

from roost.api.microversions import keystone_time, naive_time, parse_time, utc_text
from roost.errors import BadInput

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


@pytest.mark.parametrize(
    "text", ["2026-11-19T04:45:06", "2026-11-19T04:45:06.000000", "2026-11-19T04:45:06Z", "2026-11-19T05:45:06+01:00"]
)
def test_a_time_is_read_in_utc(text):
    assert utc_text(parse_time(text, "expires_at")) == "2026-11-19T04:45:06Z"


@pytest.mark.parametrize("text", ["", "soon", "1763527506", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_what_is_no_time_is_refused_with_its_place(text):
    with pytest.raises(BadInput, match="expires_at"):
        parse_time(text, "expires_at")
