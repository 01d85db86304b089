# SPDX-License-Identifier: Apache-2.0
"""spec/filters.md 5.9, the modern column, and the comma rule of 3.1."""

import pytest

from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.filters.base import applies_to_rebuild
from roost.testing import make_hosts, make_spec


def passes(asked, metadata, **options):
    rule = AvailabilityZoneFilter(AvailabilityZoneFilter.Options(**options))
    (answer,) = rule.mask(make_hosts(1, aggregates=[metadata]), make_spec(availability_zone=asked)).tolist()
    return answer


@pytest.mark.parametrize(
    ("asked", "zones", "expected"),
    [
        pytest.param(None, ["az1"], True, id="no zone asked"),
        pytest.param("", ["az1"], True, id="empty zone asked"),
        pytest.param("az1", ["az1"], True, id="same zone"),
        pytest.param("az2", ["az1"], False, id="other zone"),
        pytest.param("nova", [], True, id="default zone, host in none"),
        pytest.param("az1", [], False, id="a zone, host in none"),
        pytest.param("nova", ["az1"], False, id="default zone, host in another"),
        pytest.param("az2", ["az1,az2"], True, id="split at commas"),
        pytest.param("az2", ["az1 , az2"], True, id="pieces are stripped"),
        pytest.param("az1,az2", ["az1,az2"], False, id="the whole text is no zone"),
        pytest.param("AZ1", ["az1"], False, id="case-sensitive"),
        pytest.param("az2", ["az1", "az2"], True, id="zones of all aggregates"),
        pytest.param("nova", [""], False, id="an empty zone is a zone: no default"),
    ],
)
def test_worked_examples(asked, zones, expected):
    assert passes(asked, [{"availability_zone": zone} for zone in zones]) is expected


def test_an_aggregate_without_zone_leaves_the_host_in_the_default_zone():
    assert passes("nova", [{"ssd": "true"}])


def test_other_aggregates_do_not_put_a_host_in_the_default_zone_too():
    assert not passes("nova", [{"ssd": "true"}, {"availability_zone": "az1"}])


@pytest.mark.parametrize(("asked", "expected"), [("north", True), ("nova", False)])
def test_the_default_zone_is_an_option(asked, expected):
    assert passes(asked, [], default_availability_zone="north") is expected


def test_it_has_nothing_to_do_without_a_zone():
    assert not AvailabilityZoneFilter().applies_to(make_spec(availability_zone=""))


def test_it_is_asked_once_per_request():
    assert not AvailabilityZoneFilter().run_filter_for_index(1)


def test_it_does_not_run_on_rebuild():
    assert not applies_to_rebuild(AvailabilityZoneFilter())


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ([{"availability_zone": "az2,az1"}], "zone az9 asked; the host is in az1, az2"),
        ([], "zone az9 asked; the host is in nova"),
    ],
)
def test_the_reason_names_both_zones(metadata, reason):
    (host,) = make_hosts(1, aggregates=[metadata])
    assert AvailabilityZoneFilter().reason(host, make_spec(availability_zone="az9")) == reason
