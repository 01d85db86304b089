# SPDX-License-Identifier: Apache-2.0
"""The conductor as a service: readiness, heartbeat, stop, and the names of its methods."""

import pytest
from sqlalchemy import select

from roost.conductor.process import METHODS
from roost.records.server_steps import CONDUCTOR, WORK
from roost.store.schema.fleet import services


def test_metrics_know_all_methods_and_the_table_of_tasks_names_only_these(cloud):
    methods = cloud.conductors[0].manager.methods
    assert set(methods) == METHODS
    assert {each.method for each in WORK if each.receiver == CONDUCTOR} <= set(methods)


def test_a_heartbeat_has_a_record_with_novas_binary(cloud):
    cloud.conductors[0].send_heartbeat()
    cloud.conductors[0].send_heartbeat()
    with cloud.engine.connect() as connection:
        row = connection.execute(select(services).where(services.c.binary == "nova-conductor")).one()
    assert (row.topic, row.report_count, row.last_seen_up) == ("conductor", 2, cloud.clock.now())


def test_it_is_ready_until_it_stops(make_whole_cloud):
    service = make_whole_cloud().conductors[0]
    assert service.unready() == []
    service.stop(is_hurried=True)
    assert service.unready() == ["it is stopping"]


def test_what_it_repeats_is_named_and_spaced_by_options(cloud):
    tasks = type(cloud.conductors[0])._make_tasks(cloud.conductors[0])
    assert [each.name for each in tasks] == [
        *("heartbeat", "outage probe", "stalled tasks", "guests left behind", "leaked claims and old records"),
        "monitor",
    ]


@pytest.mark.parametrize(("timeout", "seconds"), [(600, 60), (30, 30), (0, 10)])
def test_leaked_claims_are_looked_for_as_often_as_they_come_of_age(make_whole_cloud, timeout, seconds):
    service = make_whole_cloud(options={"roost": {"leaked_claim_timeout": timeout}}).conductors[0]
    (cleaning,) = (each for each in service.tasks() if each.name.startswith("leaked"))
    assert cleaning.seconds() == seconds


def test_work_that_goes_on_after_the_answer_is_counted_by_the_method_that_does_it(cloud):
    cloud.boot()
    page = cloud.conductors[0]._metrics.render().decode()
    for method in ("create_servers", "build_instances"):
        assert f'roost_rpc_requests_total{{method="{method}",result="ok"}} 1.0' in page
