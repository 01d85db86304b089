# SPDX-License-Identifier: Apache-2.0
"""Options of the scheduler as a service: spec/config.md 1, 4 and 5."""

import os
import socket

import pytest

from roost.errors import OptionError
from roost.options.declare import declared
from roost.scheduler.all_options import option_owners, read_options
from roost.scheduler.options import SchedulerOptions, ServiceOptions


def service(**sections):
    return read_options(explicit=sections).fill(ServiceOptions)


def test_the_defaults():
    options = service()
    assert (options.driver, options.periodic_task_interval, options.workers) == ("filter_scheduler", 60, 1)
    assert (options.notification_format, options.versioned_notifications_topics) == (
        "unversioned",
        ("versioned_notifications",),
    )
    assert options.longest_picture_age_seconds == 0.5


@pytest.mark.parametrize(
    ("old", "field", "value"),
    [
        ("scheduler_driver", "driver", "nova.scheduler.chance.ChanceScheduler"),
        ("scheduler_driver_task_period", "periodic_task_interval", 5),
    ],
)
def test_names_before_ocata(old, field, value):
    assert getattr(service(DEFAULT={old: value}), field) == value


def test_the_host_is_the_machine_unless_it_has_a_name():
    assert service().service_host == socket.gethostname()
    assert service(DEFAULT={"host": "ctl-1"}).service_host == "ctl-1"


@pytest.mark.parametrize(("workers", "count"), [(0, os.cpu_count()), (1, 1), (7, 7)])
def test_no_workers_means_one_for_each_cpu(workers, count):
    assert service(scheduler={"workers": workers}).worker_count == count


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("scheduler", "workers", -1),
        ("notifications", "notification_format", "loud"),
        ("roost", "health_port", 65536),
        ("roost", "longest_picture_age_seconds", -0.1),
    ],
)
def test_values_out_of_bounds_are_errors(section, name, value):
    with pytest.raises(OptionError, match=name):
        service(**{section: {name: value}})


def test_what_needs_a_restart_says_so():
    needs_restart = {each.name for each in declared(ServiceOptions) if not each.reloads}
    announcing = {"notification_format", "versioned_notifications_topics"}
    assert needs_restart == {"driver", "workers", "host", "periodic_enable"} | announcing
    of_the_picture = {"host_manager", "service_down_time", "track_instance_changes"}
    of_the_picture.add("packing_host_numa_cells_allocation_strategy")
    assert {each.name for each in declared(SchedulerOptions) if not each.reloads} == of_the_picture


def test_owners_that_share_an_option_agree_on_it():
    kinds = {}
    for owner in option_owners():
        for each in declared(owner):
            said = (each.kind, each.default, each.old, each.secret, each.reloads)
            assert kinds.setdefault((each.group, each.name), said) == said
