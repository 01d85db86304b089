# SPDX-License-Identifier: Apache-2.0
"""What plugins see of instances, metrics, aggregates and callers, and what they say when something is missing."""

import datetime
import logging

import pytest
from tests.compat.conftest import PLUGINS, ask
from tests.flow.cloud import CONTEXT, HOST, UUID, Cloud, hosts_of

from roost import Flavor, PluginFailed, RequestSpec
from roost.errors import PluginNotFound
from roost.hosts import Instance
from roost.messages.context import RequestContext
from roost.messages.objects.aggregates_instances import instances_to_object
from roost.model import Image
from roost.plugins import context as unknown_flavors
from roost.plugins.registry import find_filters, places_of
from roost.records.fleet_export import export_fleet
from roost.sources.fleet_file import Fleet

GPU = Flavor(vcpus=1, memory_mb=1024, root_gb=1, id=7, name="gpu.one", flavorid="g1", extra_specs={"acme:gpus": "1"})
GPU_ENTRY = {
    "name": "gpu.one",
    "id": 7,
    "vcpus": 1,
    "memory_mb": 1024,
    "root_gb": 1,
    "extra_specs": {"acme:gpus": "1"},
}
AGGREGATE = {"name": "gpus", "hosts": ["a", "b"], "metadata": {"gpus": "1"}}
GPU_FILTER = "yoga_gpu_filter.GpuFilter"


def gpu_fleet(**instance):
    """Two hosts with a GPU each; the one of host a is taken by the instance."""
    taken = {"uuid": UUID % 1, "resources": {"VCPU": 1, "MEMORY_MB": 1024}, **instance}
    hosts = [{"host": "a", **HOST, "instances": [taken]}, {"host": "b", **HOST}]
    return {"hosts": hosts, "aggregates": [AGGREGATE], "flavors": [GPU_ENTRY]}


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """Makes a cloud of two hosts with the given filter; plugins lie where the program runs."""
    monkeypatch.chdir(PLUGINS)
    made = []

    def make(path, hosts=(), **sections):
        options = {"available_filters": [path], "enabled_filters": [path.rpartition(".")[2]]}
        sections.setdefault("aggregates", [AGGREGATE])
        names = {"a": {}, "b": {}, **dict(hosts)}
        made.append(Cloud(tmp_path, names, {"filter_scheduler": options}, **sections))
        return made[-1]

    yield make
    for each in made:
        each.close()


def place(manager, number, flavor=GPU, context=CONTEXT, **more):
    """The host that is chosen and claimed for an instance."""
    spec = RequestSpec(flavor=flavor, instance_uuid=UUID % number, project_id="blue", **more)
    return hosts_of(manager.place(context, spec, [UUID % number]))[0]


def passing(manager, flavor=GPU, **more):
    """The hosts that pass the filters of the driver."""
    manager.replica.refresh()
    pipeline = manager.driver.chooser()
    hosts = manager.replica.table.in_the_running()
    mask = pipeline.rules.filters[0].answers(hosts, RequestSpec(flavor=flavor, project_id="blue", **more))
    return {host.host for host, is_in in zip(hosts, mask, strict=True) if is_in}


# --- the flavor of running instances -----------------------------------------------------------------


@pytest.mark.parametrize("flavor_id", [7, "gpu.one"])
def test_flavor_id_of_a_fleet_file_is_the_flavor_in_it(scheduler_with, flavor_id):
    assert ask(scheduler_with(GPU_FILTER, document=gpu_fleet(flavor_id=flavor_id)), flavor=GPU) == ["b"]


def test_a_fleet_file_may_give_the_flavor_with_the_instance(scheduler_with):
    own = {"vcpus": 1, "memory_mb": 1024, "extra_specs": {"acme:gpus": "1"}}
    assert ask(scheduler_with(GPU_FILTER, document=gpu_fleet(flavor=own)), flavor=GPU) == ["b"]


def test_an_instance_of_another_scheduler_has_its_flavor_with_extra_specs(cloud):
    one = cloud(GPU_FILTER)
    taken = place(one.manager(), 1)
    assert passing(one.manager()) == {"a", "b"} - {taken}
    replica = one.manager().replica
    replica.refresh()
    (view,) = [each for each in replica.table.in_the_running() if each.host == taken]
    assert view.instances[UUID % 1].flavor == GPU


def test_a_claim_of_another_scheduler_shows_with_its_flavor_at_the_next_refresh(cloud):
    there = cloud(GPU_FILTER)
    one, other = there.manager(), there.manager()
    other.replica.refresh()
    taken = place(one, 1)
    assert passing(other) == {"a", "b"} - {taken}


@pytest.mark.parametrize("flavor_id", [7, "gpu.one"])
def test_imported_instances_have_the_flavor_of_the_file(cloud, flavor_id):
    there = cloud(GPU_FILTER)
    there.bring(gpu_fleet(flavor_id=flavor_id))
    assert passing(there.manager()) == {"b"}


def test_a_claim_of_a_release_that_stored_no_flavor_has_that_of_the_catalogue(cloud):
    there = cloud(GPU_FILTER, flavors=[GPU_ENTRY])
    manager = there.manager()
    taken = place(manager, 1, Flavor(vcpus=1, memory_mb=1024, id=1))
    forget_flavors(there)
    assert passing(there.manager()) == {"a", "b"} - {taken}


def test_a_flavor_of_the_catalogue_with_the_same_id_and_another_size_is_another(cloud):
    there = cloud(GPU_FILTER, flavors=[GPU_ENTRY])
    place(there.manager(), 1, Flavor(vcpus=2, memory_mb=1024, id=1))
    forget_flavors(there)
    assert passing(there.manager()) == {"a", "b"}


def forget_flavors(cloud):
    """Make all claims those of a release that stored no flavor."""
    with cloud.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE consumers SET details = json_remove(details, '$.flavor')")


def message(number, flavor=GPU, **more):
    return instances_to_object([Instance(UUID % number, "blue", flavor_id=7, flavor=flavor, **more)])


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_an_agents_message_brings_the_flavor_and_it_stays(cloud, is_reloaded):
    there = cloud(GPU_FILTER, {"a": {"instances": [{"uuid": UUID % 1, "flavor_id": 7}]}})
    manager = there.manager()
    assert passing(manager) == {"a", "b"}
    manager.update_instance_info(CONTEXT, "a", message(1))
    assert passing(manager) == {"b"}
    unchanged = [{"uuid": UUID % 1, "flavor_id": 7}]
    there.bring({"hosts": [{"host": "a", **HOST, "vcpus_total": 8, "instances": unchanged}]})
    if is_reloaded:
        manager.replica.load()
    assert passing(manager) == {"b"}


def test_an_exported_fleet_keeps_flavors_that_no_catalogue_has(cloud):
    there = cloud(GPU_FILTER)
    taken = place(there.manager(), 1)
    fleet = Fleet.load(export_fleet(there.engine, there.clock.now()))
    (view,) = [each for each in fleet.table.in_the_running() if each.host == taken]
    assert view.instances[UUID % 1].flavor == GPU


def test_extra_specs_of_a_flavor_that_is_not_known_are_empty_with_one_warning(scheduler_with, caplog, monkeypatch):
    monkeypatch.setattr(unknown_flavors, "_FIRST", [])
    scheduler = scheduler_with(GPU_FILTER, document=gpu_fleet(flavor_id=99))
    with caplog.at_level(logging.WARNING):
        assert set(ask(scheduler, flavor=GPU)) == {"a", "b"}
        ask(scheduler, flavor=GPU)
    (line,) = [each.getMessage() for each in caplog.records if "flavor" in each.getMessage()]
    assert line.startswith(f"the flavor of instance {UUID % 1} on host a is not known")


def test_the_library_places_although_the_log_of_its_program_fails(scheduler_with, monkeypatch):
    """D23: a placement fails for no line of the log, whatever handlers the program has that uses the library."""
    monkeypatch.setattr(unknown_flavors, "_FIRST", [])
    own, root, asked = logging.getLogger(unknown_flavors.__name__), logging.getLogger(), []
    own.__class__ = logging.Logger  # as it was imported
    broken = logging.NullHandler(logging.WARNING)
    monkeypatch.setattr(broken, "handle", lambda record: asked.append(record) or 1 / 0)
    root.addHandler(broken)
    try:
        assert set(ask(scheduler_with(GPU_FILTER, document=gpu_fleet(flavor_id=99)), flavor=GPU)) == {"a", "b"}
    finally:
        root.removeHandler(broken)
    assert asked[0].getMessage().startswith("the flavor of instance")


# --- metrics, aggregates, callers --------------------------------------------------------------------


def test_metrics_are_objects_and_turn_into_what_was_reported(scheduler_with):
    def host(name, idle):
        metric = {"name": "cpu.idle.percent", "value": idle, "source": "m", "timestamp": "2026-01-01T00:00:00"}
        return {"host": name, **HOST, "metrics": [metric, {"name": "own", "value": 3}]}

    document = {"hosts": [host("a", 0.25), host("b", 0.75), {"host": "c", **HOST}]}
    scheduler = scheduler_with(weighers=["newton_load_weigher.LoadWeigher"], document=document)
    assert ask(scheduler) == ["b", "a", "c"]
    first = next(iter(scheduler.table))
    idle, own = first.metrics
    assert (idle.name, idle.value, idle.source, idle.timestamp.year, own["value"]) == (
        "cpu.idle.percent",
        25,
        "m",
        2026,
        3,
    )
    assert first.metrics.to_list() == [
        {"name": "cpu.idle.percent", "value": 0.25, "source": "m", "timestamp": "2026-01-01T00:00:00"},
        {"name": "own", "value": 3, "source": None, "timestamp": None},
    ]


def test_values_of_aggregates_by_host_name_as_in_juno(scheduler_with):
    scheduler = scheduler_with("juno_power_filter.PowerFilter")
    assert set(ask(scheduler, scheduler_hints={"rack": "r1"})) == {"a1", "a2"}
    assert set(ask(scheduler, scheduler_hints={"rack": "r2"})) == {"b1"}


def test_other_types_on_a_host_as_in_kilo(scheduler_with):
    scheduler = scheduler_with("kilo_alike_filter.AlikeFilter", document=gpu_fleet(flavor_id=7))
    assert set(ask(scheduler, flavor=GPU)) == {"a", "b"}
    assert ask(scheduler, flavor=Flavor(vcpus=1, memory_mb=64, id=8)) == ["b"]


def test_metadata_that_no_aggregate_has_is_an_empty_set(scheduler_with):
    assert set(ask(scheduler_with("ocata_optional_key_filter.OptionalKeyFilter"))) == {"a1", "a2", "c1"}


def test_roles_are_those_of_the_caller(cloud):
    reserved = {"name": "reserved", "hosts": ["a", "b"], "metadata": {"role": "operator"}}
    manager = cloud("queens_role_filter.RoleFilter", {"c": {}}, aggregates=[reserved]).manager()
    operator = RequestContext.from_dict({"roles": ["member", "operator"], "auth_token": "secret", "user_id": "eve"})
    assert place(manager, 1) == place(manager, 2) == "c"
    assert place(manager, 3, context=operator) == "a"
    assert "secret" not in str(operator.caller())


def test_roles_of_the_library_are_those_of_the_request(scheduler_with):
    aggregate = {"name": "r", "hosts": ["a"], "metadata": {"role": "x"}}
    document = {"hosts": [{"host": "a", **HOST}], "aggregates": [aggregate]}
    scheduler = scheduler_with("queens_role_filter.RoleFilter", document=document)
    assert ask(scheduler) == []
    assert ask(scheduler, caller={"roles": ["x"], "more": 1}) == ["a"]


# --- age and metadata of instances -------------------------------------------------------------------

YOUNG = "xena_young_filter.YoungFilter"
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def _now(monkeypatch):
    """oslo's clock, which the plugin reads, shows the time of the cloud."""
    monkeypatch.setattr("oslo_utils.timeutils.utcnow", lambda with_timezone=False: datetime.datetime(2026, 11, 15))


@pytest.mark.usefixtures("_now")
def test_created_at_is_when_it_was_claimed_or_as_the_agent_says(cloud):
    there = cloud(YOUNG)
    one, other = there.manager(), there.manager()
    taken = place(one, 1)
    assert passing(one) == passing(other) == {"a", "b"} - {taken}
    for each in (one, other):
        each.update_instance_info(CONTEXT, taken, message(1, created_at=LONG_AGO))
        assert passing(each) == {"a", "b"}


@pytest.mark.usefixtures("_now")
def test_an_instance_that_was_placed_a_moment_ago_has_its_time_already(scheduler_with):
    scheduler = scheduler_with(YOUNG, document={"hosts": [{"host": "a", **HOST}, {"host": "b", **HOST}]})
    first = scheduler.place(RequestSpec(flavor=GPU)).selections[0].host
    second = scheduler.place(RequestSpec(flavor=GPU)).selections[0].host
    assert {first, second} == {"a", "b"}


@pytest.mark.usefixtures("_now")
def test_system_metadata_tells_the_image_of_an_instance(cloud):
    there = cloud(YOUNG)
    manager = there.manager()
    taken = place(manager, 1, image=Image(id="i", properties={"os_type": "windows"}))
    manager.update_instance_info(CONTEXT, taken, message(1, created_at=LONG_AGO, image_props={"os_type": "windows"}))
    assert passing(manager) == {"a", "b"} - {taken}
    manager.update_instance_info(CONTEXT, taken, message(1, created_at=LONG_AGO, image_props={"os_type": "linux"}))
    assert passing(manager) == {"a", "b"}


@pytest.mark.usefixtures("_now")
def test_age_and_metadata_may_stand_in_a_fleet_file(scheduler_with):
    document = gpu_fleet(created_at="2020-01-01T00:00:00Z", system_metadata={"owner": "x"})
    scheduler = scheduler_with(YOUNG, document=document)
    assert set(ask(scheduler)) == {"a", "b"}
    (instance,) = next(iter(scheduler.table)).instances.values()
    assert (instance.created_at, instance.system_metadata["owner"]) == (LONG_AGO, "x")
    document["hosts"][0]["instances"][0]["image_props"] = {"os_type": "windows"}
    assert ask(scheduler_with(YOUNG, document=document)) == ["b"]


def test_age_and_metadata_of_a_fleet_file_are_imported_and_exported(cloud):
    there = cloud(GPU_FILTER)
    there.bring(gpu_fleet(created_at="2020-01-01T00:00:00Z", system_metadata={"owner": "x"}))
    exported = export_fleet(there.engine, there.clock.now())["hosts"][0]["instances"][0]
    assert (exported["created_at"], exported["system_metadata"]) == ("2020-01-01T00:00:00+00:00", {"owner": "x"})


# --- what errors say ---------------------------------------------------------------------------------


def test_the_import_of_a_file_beside_it_is_called_that():
    path = "kilo_pool.pool_filter.PoolFilter"
    words = r"PoolFilter is written for Python 2: it imports Node, which is .*Node\.py"
    with pytest.raises(PluginNotFound, match=words) as caught:
        find_filters([path], ["PoolFilter"], [PLUGINS])
    assert caught.value.hint == "Python 3 imports a file of the same package by `from . import Node`"


def test_the_import_of_a_file_beside_it_is_called_that_when_it_runs(scheduler_with):
    with pytest.raises(PluginFailed, match="LatePoolFilter failed on host a1: ModuleNotFoundError") as caught:
        ask(scheduler_with("kilo_pool.late_pool_filter.LatePoolFilter"))
    assert "from . import Node" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("LateOptionFilter", "have the plugin register the option itself"),
        ("LateNameFilter", "plugins-of-nova.md lists what there is"),
        ("LateImportFilter", "plugins-of-nova.md lists what there is"),
    ],
)
def test_errors_at_run_time_have_the_remedies_of_errors_at_load_time(scheduler_with, name, remedy):
    with pytest.raises(PluginFailed, match=f"^{name} failed on host a1: ") as caught:
        ask(scheduler_with(f"wallaby_late_habits.{name}"))
    assert remedy in caught.value.hint


def test_errors_of_constructors_and_functions_have_the_same_remedies(scheduler_with):
    with pytest.raises(PluginFailed, match=r"^LateConstructor failed: NoSuchOptError") as made:
        scheduler_with("wallaby_late_habits.LateConstructor")
    with pytest.raises(PluginNotFound, match=r"late_filters\(\) failed: NoSuchOptError") as called:
        find_filters(["wallaby_late_habits.late_filters"], ["X"], [PLUGINS])
    assert made.value.hint == called.value.hint == "take it out, or have the plugin register the option itself"


def test_no_folder_is_named_twice(monkeypatch):
    monkeypatch.chdir(PLUGINS)
    files = [PLUGINS / "nova.conf", PLUGINS / "more.conf"]
    with pytest.raises(PluginNotFound, match="there is no module acme_no_such_library") as caught:
        find_filters(["antelope_helper_filter.HelperFilter"], ["HelperFilter"], places_of(files))
    assert caught.value.hint == f"looked in Python's path and {PLUGINS}"


def test_a_plugin_named_as_one_of_roosts_packages_is_no_file_beside_it():
    with pytest.raises(PluginNotFound, match="there is no module errors"):
        find_filters(["errors.Mine"], ["Mine"])
