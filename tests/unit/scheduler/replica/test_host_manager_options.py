# SPDX-License-Identifier: Apache-2.0
"""Options of host managers, by all of nova's names: spec/config.md."""

import pytest

from roost.errors import OptionError
from roost.scheduler.all_options import read_options
from roost.scheduler.build import build_pipeline, filters_to_run
from roost.scheduler.options import (
    BARE_METAL_FILTERS,
    BARE_METAL_MANAGERS,
    DEFAULT_FILTERS,
    HOST_MANAGERS,
    NOVA_FILTERS,
    SchedulerOptions,
)
from roost.scheduler.own_replica import IronicHostManager, make_host_manager
from roost.scheduler.replica import HostManager


def options(**sections):
    return read_options(explicit=sections).fill(SchedulerOptions)


def options_in(tmp_path, text):
    path = tmp_path / "nova.conf"
    path.write_text(text)
    return read_options([path]).fill(SchedulerOptions)


def filters_of(**sections):
    return tuple(each.name for each in build_pipeline(read_options(explicit=sections)).rules.filters)


@pytest.mark.parametrize("name", HOST_MANAGERS)
def test_every_spelling_of_the_host_managers(name):
    found = make_host_manager(None, options(scheduler={"host_manager": name}), None, None)
    assert type(found) is (IronicHostManager if name in BARE_METAL_MANAGERS else HostManager)


def test_the_old_names_still_work(tmp_path):
    found = options_in(
        tmp_path,
        """
[DEFAULT]
scheduler_host_manager = nova.scheduler.ironic_host_manager.IronicHostManager
scheduler_use_baremetal_filters = true
baremetal_scheduler_default_filters = ComputeFilter, ExactRamFilter
scheduler_tracks_instance_changes = false
report_interval = 7
""",
    )
    assert found.is_for_bare_metal
    assert found.filters_to_run == ("ComputeFilter", "ExactRamFilter")
    assert not found.track_instance_changes
    assert found.report_interval == 7


def test_the_new_names(tmp_path):
    found = options_in(
        tmp_path,
        """
[scheduler]
host_manager = ironic_host_manager
[filter_scheduler]
use_baremetal_filters = true
track_instance_changes = false
""",
    )
    assert found.filters_to_run == BARE_METAL_FILTERS
    assert not found.track_instance_changes


def test_a_host_manager_that_nobody_has_is_an_error():
    with pytest.raises(OptionError, match="host_manager"):
        options(scheduler={"host_manager": "my.own.Manager"})


def test_bare_metal_filters_run_only_where_both_options_say_so():
    metal, wanted = {"host_manager": "ironic_host_manager"}, {"use_baremetal_filters": True}
    assert filters_of(scheduler=metal, filter_scheduler=wanted) == BARE_METAL_FILTERS
    assert filters_of(scheduler=metal) == DEFAULT_FILTERS
    assert filters_of(filter_scheduler=wanted) == DEFAULT_FILTERS


@pytest.mark.parametrize(
    ("down_time", "interval", "seconds"), [(60, 10, 60), (61, 60, 61), (60, 60, 150), (60, 61, 152), (1, 1, 2)]
)
def test_a_down_time_that_is_no_more_than_the_interval_is_raised(down_time, interval, seconds):
    found = SchedulerOptions(service_down_time=down_time, report_interval=interval)
    assert found.seconds_until_down == seconds


@pytest.mark.parametrize(
    ("filter_scheduler", "cloud", "filters"),
    [
        ({}, "own", DEFAULT_FILTERS),
        ({}, "nova", NOVA_FILTERS),
        ({"enabled_filters": ["ComputeFilter"]}, "nova", ("ComputeFilter",)),
        ({"enabled_filters": list(DEFAULT_FILTERS)}, "nova", DEFAULT_FILTERS),
    ],
)
def test_a_nova_cloud_has_novas_default(filter_scheduler, cloud, filters):
    settings = read_options(explicit={"filter_scheduler": filter_scheduler, "roost": {"cloud": cloud}})
    assert filters_to_run(settings) == filters
    assert tuple(each.name for each in build_pipeline(settings).rules.filters) == filters
