# SPDX-License-Identifier: Apache-2.0
"""Hosts kept for images or projects by their aggregates: spec/filters.md 3.1, 5.4 and 5.6."""

import pytest

from roost.filters.aggregate_isolation import AggregateImagePropertiesIsolation, AggregateMultiTenancyIsolation
from roost.filters.base import applies_to_rebuild
from roost.model import Aggregate
from roost.model.group import merged_metadata, raw_values
from roost.testing import make_hosts, make_spec


def host_in(*metadata):
    return make_hosts(1, aggregates=[[*metadata]])


# --- what all rules on aggregates share (3.1) --------------------------------------------------------

TWO = [Aggregate("a", {"k": "x, y", "other": "1"}), Aggregate("b", {"k": "y,z"}), Aggregate("c", {"other": ""})]


def test_raw_values_are_whole_texts_of_the_aggregates_that_have_the_key():
    assert raw_values(TWO, "k") == {"x, y", "y,z"}


def test_merged_values_are_split_at_commas_and_stripped():
    assert merged_metadata(TWO) == {"k": {"x", "y", "z"}, "other": {"1", ""}}


def test_for_a_key_only_aggregates_with_that_key_contribute_but_all_their_keys():
    assert merged_metadata(TWO, "k") == {"k": {"x", "y", "z"}, "other": {"1"}}


# --- AggregateImagePropertiesIsolation (5.4) ---------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "aggregates", "passes"),
    [
        pytest.param({"os_distro": "windows"}, [{"os_distro": "windows"}], True, id="the value asked for"),
        pytest.param({"os_distro": "windows"}, [{"os_distro": "linux"}], False, id="another value"),
        pytest.param({"os_distro": "windows"}, [], True, id="no aggregate asks"),
        pytest.param({}, [{"os_distro": "windows"}], True, id="an image without the property"),
        pytest.param({"os_distro": "windows"}, [{"os_distro": "linux, windows"}], True, id="one of a list"),
        pytest.param({"os_distro": "windows"}, [{"os_distro": "linux"}, {"os_distro": "windows"}], True, id="either"),
        pytest.param({"foo": "1"}, [{"foo": "2"}], True, id="no known property"),
        pytest.param({"hw_cpu_cores": "4"}, [{"hw_cpu_cores": "8"}], False, id="a number"),
        pytest.param({"hw_cpu_cores": "4"}, [{"hw_cpu_cores": "4"}], True, id="the same number"),
        pytest.param({"hw_boot_menu": "true"}, [{"hw_boot_menu": "true"}], False, id="its text is True"),
        pytest.param({"hw_boot_menu": "true"}, [{"hw_boot_menu": "True"}], True, id="True is True"),
        pytest.param({"hw_boot_menu": "false"}, [{"hw_boot_menu": "True"}], True, id="a no counts as not set"),
        pytest.param({"architecture": "amd64"}, [{"hw_architecture": "amd64"}], False, id="its text is x86_64"),
        pytest.param({"architecture": "amd64"}, [{"hw_architecture": "x86_64"}], True, id="x86_64 is x86_64"),
        pytest.param({"architecture": "amd64"}, [{"architecture": "amd64"}], True, id="an old name asks nothing"),
        pytest.param({"architecture": "amd64"}, [{"architecture": "arm"}], True, id="nor does it with another value"),
        pytest.param({"os_distro": "Windows"}, [{"os_distro": "windows"}], False, id="case matters"),
    ],
)
def test_image_isolation_examples(image, aggregates, passes):
    mask = AggregateImagePropertiesIsolation().mask(host_in(*aggregates), make_spec(image=image))
    assert mask.tolist() == [passes]


@pytest.mark.parametrize(
    ("namespace", "separator", "passes"),
    [("os", "_", True), ("hw", "_", False), (None, "_", False), ("", "_", False), ("os", ".", True)],
)
def test_only_keys_in_the_namespace_count(namespace, separator, passes):
    rule = AggregateImagePropertiesIsolation(AggregateImagePropertiesIsolation.Options(namespace, separator))
    hosts = host_in({"os_distro": "windows", "hw_vif_model": "virtio"})
    spec = make_spec(image={"os_distro": "windows", "hw_vif_model": "e1000"})
    assert rule.mask(hosts, spec).tolist() == [passes]


def test_a_request_without_image_passes():
    rule = AggregateImagePropertiesIsolation()
    assert not rule.applies_to(make_spec())
    assert rule.mask(host_in({"os_distro": "windows"}), make_spec()).tolist() == [True]


def test_image_isolation_runs_once_per_request_and_on_rebuild():
    assert not AggregateImagePropertiesIsolation().run_filter_for_index(1)
    assert applies_to_rebuild(AggregateImagePropertiesIsolation())


def test_the_reason_names_the_property_and_what_the_aggregates_take():
    (host,) = host_in({"os_distro": "linux, bsd"})
    reason = AggregateImagePropertiesIsolation().reason(host, make_spec(image={"os_distro": "windows"}))
    assert reason == "the image has os_distro=windows; its aggregates take bsd, linux"


# --- AggregateMultiTenancyIsolation (5.6) ------------------------------------------------------------


@pytest.mark.parametrize(
    ("project", "aggregates", "passes"),
    [
        pytest.param("p1", [], True, id="no aggregate"),
        pytest.param("p1", [{"x": "y"}], True, id="no restriction"),
        pytest.param("p1", [{"filter_tenant_id": "p2"}], False, id="somebody else's"),
        pytest.param("p1", [{"filter_tenant_id": "p2, p1"}], True, id="one of a list"),
        pytest.param("p1", [{"filter_tenant_id": "p2"}, {"filter_tenant_id": "p1"}], True, id="either"),
        pytest.param("p1", [{"filter_tenant_id": "p2"}, {"z": "1"}], False, id="an open aggregate does not open"),
        pytest.param("p1", [{"filter_tenant_id": ""}], False, id="an empty value is nobody"),
        pytest.param(None, [{"filter_tenant_id": "p1"}], False, id="a request of nobody"),
        pytest.param("p1", [{"filter_tenant_id2": "p1"}], True, id="a further key"),
        pytest.param("p1", [{"filter_tenant_idX": "p9"}], False, id="a further key for somebody else"),
        pytest.param("P1", [{"filter_tenant_id": "p1"}], False, id="case matters"),
    ],
)
def test_tenancy_examples(project, aggregates, passes):
    mask = AggregateMultiTenancyIsolation().mask(host_in(*aggregates), make_spec(project_id=project))
    assert mask.tolist() == [passes]


def test_a_project_is_not_kept_inside_its_aggregate():
    hosts = make_hosts(aggregates=[[{"filter_tenant_id": "p1"}], []])
    assert AggregateMultiTenancyIsolation().mask(hosts, make_spec(project_id="p1")).tolist() == [True, True]


def test_tenancy_runs_once_per_request_and_not_on_rebuild():
    assert not AggregateMultiTenancyIsolation().run_filter_for_index(1)
    assert not applies_to_rebuild(AggregateMultiTenancyIsolation())


def test_the_reason_names_whose_host_it_is():
    (host,) = host_in({"filter_tenant_id": "p2", "filter_tenant_id2": "p3"})
    reason = AggregateMultiTenancyIsolation().reason(host, make_spec(project_id="p1"))
    assert reason == "kept for the projects p2, p3; the request is of p1"
