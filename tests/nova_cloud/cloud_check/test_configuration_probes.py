# SPDX-License-Identifier: Apache-2.0
"""The broker and the plugins, as `roost cloud check` tells of them."""

from roost.nova.surveys import FAILED, OK, probe_broker, probe_plugins
from roost.scheduler.all_options import read_options
from roost.trial.private_servers import free_port


def configured(**sections):
    return read_options(explicit=sections)


def test_a_broker_that_is_down_is_said_with_its_address_and_no_password():
    url = f"rabbit://nova:hush@127.0.0.1:{free_port()}/"
    row = probe_broker(configured(DEFAULT={"transport_url": url}), ())
    assert row.result == FAILED
    assert row.details.startswith("rabbit://nova:***@127.0.0.1:")
    assert "Connection refused" in row.details
    assert "transport_url" in row.remedy


def test_an_address_of_another_kind_is_refused():
    row = probe_broker(configured(DEFAULT={"transport_url": "amqp://nova:hush@h/"}), ())
    assert row.result == FAILED
    assert "hush" not in str(row)


def test_the_plugins_are_counted():
    row = probe_plugins(configured(filter_scheduler={"enabled_filters": "ComputeFilter,SameHostFilter"}), ())
    assert row.result == OK
    assert row.details.startswith("2 filters, ")


def test_a_plugin_that_is_not_there_is_named():
    row = probe_plugins(configured(filter_scheduler={"enabled_filters": "ComputeFiltr"}), ())
    assert (row.result, row.remedy) == (FAILED, "did you mean ComputeFilter?")
