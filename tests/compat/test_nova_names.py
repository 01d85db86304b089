# SPDX-License-Identifier: Apache-2.0
"""The names that plugins import: spec/plugin-surface.md, name by name."""

import copy
import importlib.util
import logging
from types import ModuleType

import pytest
from tests.compat.conftest import DOCUMENT, SMALL

from roost import Flavor, Fleet, RequestSpec, Scheduler, ServerGroup
from roost.filters.ram import RamFilter
from roost.model.request import Retry
from roost.plugins.context import PluginContext, TableState
from roost.plugins.nova_conf import PluginOptions
from roost.plugins.nova_import import importing
from roost.plugins.nova_shapes import as_dict, as_object, original_request
from roost.scheduler.all_options import read_options
from roost.testing import make_hosts
from roost.weighers.ram import RAMWeigher

SURFACE = {
    "nova.scheduler.filters": "BaseHostFilter all_filters",
    "nova.scheduler.filters.utils": "aggregate_values_from_key aggregate_metadata_get_by_host validate_num_values "
    "instance_uuids_overlap",
    "nova.scheduler.filters.extra_specs_ops": "match",
    "nova.scheduler.weights": "BaseHostWeigher WeighedHost all_weighers",
    "nova.weights": "normalize BaseWeigher WeighedObject",
    "nova.scheduler.utils": "get_weight_multiplier parse_options request_is_rebuild validate_filter validate_weigher",
    "nova.conf": "CONF",
    "nova.i18n": "_ _LI _LW _LE _LC",
    "nova.openstack.common.log": "getLogger",
    "nova.openstack.common.gettextutils": "_",
    "nova.openstack.common.jsonutils": "loads dumps",
    "nova.openstack.common.timeutils": "utcnow",
    "nova.openstack.common.importutils": "import_object",
    "nova.context": "get_admin_context",
    "nova.objects": "AggregateList InstanceList ServiceList InstanceGroup RequestSpec Flavor ImageMeta",
    "nova.objects.aggregate": "AggregateList",
    "nova.objects.request_spec": "RequestSpec",
    "nova.db": "aggregate_metadata_get_by_host",
    "nova.exception": "NoValidHost NovaException Invalid NotFound ComputeHostMetricNotFound AggregateNotFound",
    "nova.servicegroup": "API",
    "nova.scheduler.host_manager": "HostState",
    "nova.scheduler.filters.compute_filter": "ComputeFilter",
    "nova.scheduler.weights.ram": "RAMWeigher",
    "oslo.config.cfg": "CONF StrOpt",
    "oslo.utils.timeutils": "utcnow",
    "oslo_log.log": "getLogger",
}


@pytest.fixture
def nova():
    """Gives a module of nova's as a plugin gets it, while a fleet is in place."""
    table = Scheduler(Fleet.load(DOCUMENT)).table
    context = PluginContext(fleet=TableState(lambda: table))
    with context.bound(), importing("tests"):
        yield importlib.import_module


@pytest.mark.parametrize("module", SURFACE)
def test_every_name_of_the_surface_is_there(nova, module):
    found = nova(module)
    assert [name for name in SURFACE[module].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("module", SURFACE)
def test_a_star_imports_the_names_of_the_surface_and_no_module(nova, module):
    nova("nova.db.api")
    nova("nova.objects.aggregate")
    names: dict = {}
    exec(f"from {module} import *", names)
    public = {name for name in SURFACE[module].split() if not name.startswith("_")}
    assert public <= names.keys()
    if module.startswith("nova.") and not module.startswith("nova.openstack"):
        assert [name for name, value in names.items() if isinstance(value, ModuleType)] == []


def test_a_module_that_is_not_there_is_not_found(nova):
    for missing in ("nova.virt", "nova.conf.compute", "nova.scheduler.filters.ram_filter.more"):
        assert importlib.util.find_spec(missing) is None


def test_an_old_name_of_a_library_is_the_library_of_today(nova):
    for old, new in (("oslo.config.cfg", "oslo_config.cfg"), ("oslo.utils.timeutils", "oslo_utils.timeutils")):
        assert nova(old) is importlib.import_module(new)
    assert nova("oslo.config").cfg is nova("oslo_config").cfg
    assert nova("nova.openstack.common.jsonutils") is nova("oslo_serialization.jsonutils")


# --- filters, weighers -------------------------------------------------------------------------------


def test_all_filters_are_the_built_ins_in_novas_shape(nova):
    filters = nova("nova.scheduler.filters")
    found = {each.__name__: each for each in filters.all_filters()}
    assert {"RamFilter", "ComputeFilter", "NUMATopologyFilter"} <= found.keys()
    assert all(issubclass(each, filters.BaseHostFilter) for each in found.values())
    assert found["RamFilter"].built_in_class is RamFilter


def test_all_weighers_are_the_built_ins_in_novas_shape(nova):
    weights = nova("nova.scheduler.weights")
    found = {each.__name__: each for each in weights.all_weighers()}
    assert issubclass(found["RAMWeigher"], weights.BaseHostWeigher)
    assert (found["RAMWeigher"].minval, found["RAMWeigher"].built_in_class) == (0, RAMWeigher)


def test_a_built_in_says_of_one_host_what_it_says_of_all():
    hosts = make_hosts(3, total_usable_ram_mb=[512, 2048, 4096], free_ram_mb=[512, 2048, 4096])
    spec = RequestSpec(flavor=SMALL)
    assert [RamFilter().host_passes(host, spec) for host in hosts] == [False, True, True]
    weigher = RAMWeigher()
    assert [weigher._weigh_object(host, spec) for host in hosts] == [512, 2048, 4096]
    assert [weigher.weight_multiplier(host) for host in hosts] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("given", "bounds", "expected"),
    [([], {}, []), ([1, 3], {}, [0.0, 1.0]), ([2, 2], {}, [0, 0]), ([2, 4], {"minval": 0}, [0.5, 1.0])],
)
def test_normalize(nova, given, bounds, expected):
    assert nova("nova.weights").normalize(given, **bounds) == expected


# --- helpers -----------------------------------------------------------------------------------------


def test_parse_options_leaves_out_what_is_wrong_with_one_warning(nova, caplog):
    parse = nova("nova.scheduler.utils").parse_options
    with caplog.at_level(logging.WARNING):
        assert parse(["a=1", "b", "=2", "c=x", "d=1=2", "e.f=3"], converter=float, name="x") == [
            ("a", 1.0),
            ("e.f", 3.0),
        ]
    assert [record.getMessage() for record in caplog.records] == ["ignored in the options x: b, =2, c=x, d=1=2"]


def test_validate_num_values(nova):
    smallest = nova("nova.scheduler.filters.utils").validate_num_values
    assert smallest(set(), 8) == 8
    assert smallest({"10", "9"}, 8) == 9
    assert smallest({"10", "9.5"}, 8, cast_to=float, based_on=max) == 10.0
    with pytest.raises(ValueError, match="XX"):
        smallest({"XX", "20"}, 8)


def test_match_raises_what_it_raises_in_nova(nova):
    match = nova("nova.scheduler.filters.extra_specs_ops").match
    assert match("10", ">= 9")
    assert not match(None, "s== a")
    with pytest.raises(ValueError, match="compares numbers"):
        match("abc", ">= 9")
    with pytest.raises(IndexError):
        match("abc", "<or>")


def test_which_rules_are_used(nova):
    utils = nova("nova.scheduler.utils")
    rules = {"enabled_filters": ["RamFilter"], "weight_classes": ["nova.scheduler.weights.all_weighers"]}
    with PluginContext(PluginOptions(read_options(explicit={"filter_scheduler": rules}))).activated():
        assert utils.validate_filter("RamFilter")
        assert not utils.validate_filter("CoreFilter")
        assert utils.validate_weigher("nova.scheduler.weights.ram.RAMWeigher")


def test_a_rebuild_is_known_in_either_form(nova):
    is_rebuild = nova("nova.scheduler.utils").request_is_rebuild
    spec = RequestSpec(flavor=SMALL, scheduler_hints={"_nova_check_type": ["rebuild"]})
    assert is_rebuild(spec)
    assert is_rebuild(as_dict(spec))
    assert not is_rebuild(RequestSpec(flavor=SMALL))


# --- objects -----------------------------------------------------------------------------------------


def test_aggregates_are_found_by_host_and_by_key(nova):
    found = nova("nova.objects").AggregateList
    assert [(each.name, each.hosts, each.id) for each in found.get_by_host(None, "a1")] == [
        ("rack one", ["a1", "a2"], 1)
    ]
    assert found.get_by_host(None, "a1", key="ram_headroom_mb") == []
    assert found.get_by_host(None, "nobody") == []
    assert [each["name"] for each in found.get_by_metadata_key(None, "ram_headroom_mb")] == ["rack two"]
    assert [each.name for each in found.get_by_metadata_key(None, "rack", hosts=["b1"])] == ["rack two"]


def test_metadata_of_a_host_by_novas_database_call(nova):
    ask = nova("nova.db").aggregate_metadata_get_by_host
    assert ask(None, "a1", key="licences") == {"licences": {"debian, rhel"}}
    assert ask(None, "b1") == {"rack": {"r2"}, "ram_headroom_mb": {"0"}}


def test_the_zone_of_a_host(nova):
    zone_of = nova("nova.availability_zones").get_host_availability_zone
    table = Fleet.load(
        {
            "hosts": [{"host": "x"}, {"host": "y"}],
            "aggregates": [{"name": "z", "hosts": ["x"], "metadata": {"availability_zone": "east"}}],
        }
    ).table
    with PluginContext(PluginOptions(read_options()), TableState(lambda: table)).activated():
        assert (zone_of(None, "x"), zone_of(None, "y")) == ("east", "nova")


def test_instances_of_a_host(nova):
    found = nova("nova.objects").InstanceList.get_by_host(None, "a1")
    assert [(each.uuid, each.project_id, each.host, each.image_ref) for each in found] == [
        ("i1", "blue", "a1", None),
        ("i2", "red", "a1", None),
    ]
    assert found[1].flavor.memory_mb == 4096
    assert found[1]["uuid"] == "i2"


def test_services_and_whether_they_are_up(nova):
    services = nova("nova.objects").ServiceList.get_by_binary(None, "nova-compute")
    assert [each.host for each in services] == ["a1", "a2", "b1", "c1"]
    assert all(nova("nova.servicegroup").API().service_is_up(each) for each in services)
    assert nova("nova.objects").ServiceList.get_by_binary(None, "nova-conductor") == []


def test_a_group_that_nobody_knows_is_novas_error(nova):
    exception = nova("nova.exception")
    with pytest.raises(exception.InstanceGroupNotFound, match="there is no server group gone"):
        nova("nova.objects").InstanceGroup.get_by_uuid(None, "gone")


# --- errors, context, log ----------------------------------------------------------------------------


def test_errors_fill_their_text_from_keywords(nova):
    exception = nova("nova.exception")
    error = exception.NoValidHost(reason="too small")
    assert (str(error), error.code, error.kwargs["reason"]) == (
        "No valid host was found. too small",
        500,
        "too small",
    )
    assert isinstance(exception.AggregateNotFound(aggregate_id=3), exception.NotFound)
    assert str(exception.NovaException("in my own words")) == "in my own words"
    assert exception.NoValidHost().format_message() == "No valid host was found. %(reason)s"

    class Mine(exception.Invalid):
        msg_fmt = "not %(colour)s"

    assert str(Mine(colour="green")) == "not green"


def test_a_context_can_be_raised(nova):
    context = nova("nova.context").RequestContext("ann", "blue")
    assert (context.is_admin, context.elevated().is_admin, context.elevated().project_id) == (False, True, "blue")
    assert (context.tenant, context.user, context.to_dict()["user_id"]) == ("blue", "ann", "ann")


def test_the_log_of_old_takes_what_plugins_hand_over(nova, caplog):
    log = nova("nova.openstack.common.log").getLogger("some.plugin")
    with caplog.at_level(logging.DEBUG):
        log.audit("for %s", "operators")
        log.warn("careful", instance={"uuid": "i1"})
        log.debug("more", context=None)
    assert [(each.levelname, each.name) for each in caplog.records] == [
        ("INFO", "some.plugin"),
        ("WARNING", "some.plugin"),
        ("DEBUG", "some.plugin"),
    ]


# --- the request in its older form -------------------------------------------------------------------


def test_the_dict_of_old_has_the_attributes_of_today():
    spec = RequestSpec(flavor=Flavor(vcpus=2, memory_mb=64, name="tiny"), project_id="blue", user_id="ann")
    properties = as_dict(spec)
    assert isinstance(properties, dict)
    assert properties["instance_type"]["name"] == properties.flavor.name == "tiny"
    assert properties["context"].project_id == properties.project_id == "blue"
    assert properties.get("flavor") is spec.flavor
    assert properties.get("colour", "grey") == "grey"
    assert "project_id" in properties
    assert "colour" not in properties
    assert properties.get_scheduler_hint("x", "y") == "y"
    with pytest.raises(KeyError, match="colour"):
        properties["colour"]
    with pytest.raises(AttributeError, match="colour"):
        _ = properties.colour


def test_the_dict_of_old_is_the_same_for_all_plugins_of_a_request():
    spec = RequestSpec(flavor=SMALL)
    as_dict(spec)["note"] = "seen"
    assert as_dict(spec)["note"] == "seen"
    assert "note" not in as_dict(RequestSpec(flavor=SMALL))
    assert original_request(as_dict(spec)) is spec
    assert original_request(as_object(spec)) is spec
    assert original_request(spec) is spec


def test_the_dict_of_old_can_be_copied():
    properties = as_dict(RequestSpec(flavor=SMALL, project_id="blue"))
    assert copy.deepcopy(properties)["project_id"] == "blue"
    assert dict(properties)["project_id"] == "blue"


def test_the_object_has_lists_where_nova_has_lists():
    group = ServerGroup(policy="affinity", members=("i1",), hosts=("a1",))
    hints = {"near": ["i1", "i2"], "_nova_check_type": ["rebuild"]}
    retry = Retry(1, (("a1", "n1"),))
    spec = as_object(
        RequestSpec(flavor=SMALL, scheduler_hints=hints, instance_group=group, ignore_hosts=("x",), retry=retry)
    )
    assert spec.scheduler_hints == hints
    assert spec.instance_group.hosts == ["a1"]
    assert spec.instance_group.members == ["i1"]
    assert (spec.ignore_hosts, spec.force_hosts) == (["x"], None)
    assert [(each.host, each.hypervisor_hostname) for each in spec.retry.hosts] == [("a1", "n1")]
    assert spec.pci_requests.requests == []
    assert spec.get_scheduler_hint("near") == ["i1", "i2"]
    assert spec.is_rebuild
    assert isinstance(spec, RequestSpec)
    assert spec.to_legacy_filter_properties_dict()["scheduler_hints"]["near"] == ["i1", "i2"]
    assert spec.to_legacy_request_spec_dict()["num_instances"] == 1
    assert "instance_group" in spec
    assert not spec.obj_attr_is_set("numa_topology")
