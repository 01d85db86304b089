# SPDX-License-Identifier: Apache-2.0
"""Which options a snapshot holds: those that decide, and that data may set."""

import pytest

from roost.options.declare import declared
from roost.options.files import check_fleet_option
from roost.plugins.registry import FILTERS, WEIGHERS
from roost.scheduler.all_options import option_owners, read_options
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.prefilters import PrefilterOptions
from roost.sources.snapshot import deciding_options

SECRET = "s3cret"


def test_every_option_that_decides_is_there_or_may_not_be():
    settings = read_options()
    found = deciding_options(settings)
    owners = [SchedulerOptions, PrefilterOptions, *(each.Options for each in (*FILTERS, *WEIGHERS) if each.Options)]
    for option in (each for owner in owners for each in declared(owner)):
        value = settings.value(option.group, option.name)
        sections = {option.group: {option.name: list(value) if isinstance(value, tuple) else value}}
        is_held = option.name in found.get(option.group, {})
        may_be = value is not None and check_fleet_option(sections, (option.group, option.name), option) is None
        assert is_held == (may_be and option.name != "available_filters"), option.name


def test_nothing_of_other_services_is_there():
    found = deciding_options(read_options())
    names = {(section, name) for section, options in found.items() for name in options}
    owned = {(each.group, each.name) for owner in option_owners() for each in declared(owner)}
    assert names < owned
    assert ("DEFAULT", "compute_driver") not in names
    assert ("roost", "longest_picture_age_seconds") not in names


def test_no_secret_address_or_path_is_there():
    settings = read_options(
        explicit={
            "database": {"connection": f"postgresql://roost:{SECRET}@db/roost"},
            "DEFAULT": {"transport_url": f"rabbit://roost:{SECRET}@mq/", "log_file": f"/var/{SECRET}"},
            "trusted_computing": {"attestation_server": SECRET, "attestation_auth_blob": SECRET},
            "filter_scheduler": {
                "available_filters": [f"{SECRET}.all_filters"],
                "enabled_filters": ["ComputeFilter", f"{SECRET}.module.OwnFilter", "Plain"],
                "weight_classes": ["roost.weighers.all_weighers", f"{SECRET}.OwnWeigher"],
            },
        }
    )
    found = deciding_options(settings)
    assert SECRET not in repr(found)
    assert found["filter_scheduler"]["enabled_filters"] == ["ComputeFilter", "OwnFilter", "Plain"]
    assert found["filter_scheduler"]["weight_classes"] == ["roost.weighers.all_weighers", "OwnWeigher"]


@pytest.mark.parametrize("explicit", [{}, {"scheduler": {"max_attempts": 7}, "metrics": {"weight_setting": ["a=1"]}}])
def test_they_are_read_again_as_they_are(explicit):
    found = deciding_options(read_options(explicit=explicit))
    assert deciding_options(read_options((), found, found)) == found
