# SPDX-License-Identifier: Apache-2.0
import json
import random

import pytest

from roost.errors import FieldError
from roost.model import Destination, Flavor, Image, Ranked, RequestSpec, Retry, Score, Selection, ServerGroup, Service
from roost.model.json_records import from_json, request_from_json, to_json
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec
from roost.weighers.ram import RAMWeigher

FLAVOR = Flavor(vcpus=2, memory_mb=2048, root_gb=20, swap=512, name="small", extra_specs={"hw:cpu_policy": "shared"})
FULL = RequestSpec(
    flavor=FLAVOR,
    image=Image(id="image-1", properties={"os_distro": "debian", "trait:A": "required", "hw_cpu_cores": "4"}),
    num_instances=2,
    instance_uuid="i1",
    project_id="p1",
    availability_zone="az1",
    scheduler_hints={"group": ["g1"], "different_host": ["i2", "i3"]},
    instance_group=ServerGroup("anti-affinity", uuid="g1", members=["i1"], rules={"max_server_per_host": 2}),
    ignore_hosts=["h9"],
    force_nodes=[],
    requested_destination=Destination(host="h1", cell="cell1"),
    retry=Retry(num_attempts=2, hosts=[["h1", "n1"]]),
    is_bfv=True,
)


def through_text(value):
    return json.loads(json.dumps(value, allow_nan=False))


@pytest.mark.parametrize("spec", [RequestSpec(flavor=FLAVOR), FULL], ids=["least", "full"])
def test_a_request_comes_back_as_it_was(spec):
    assert request_from_json(through_text(to_json(spec))) == spec


@pytest.mark.parametrize(
    "record",
    [
        FLAVOR,
        ServerGroup("anti-affinity", name="web", rules={"max_server_per_host": 2}),
        Destination(host="h1"),
        Retry(hosts=[("h1", "n1")]),
        Service(disabled=True, disabled_reason="moving", seconds_since_seen=-3.5),
        Image(id="i", properties={"os_distro": "debian"}, min_ram=512),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_comes_back_as_it_was(record):
    assert from_json(type(record), through_text(to_json(record))) == record


def test_a_request_may_be_as_short_as_its_flavor():
    assert request_from_json({"flavor": {"vcpus": 1, "memory_mb": 512}}).flavor.memory_mb == 512


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"flavour": {}}, r"unknown field 'flavour' \(did you mean flavor\?\)"),
        ({"flavor": {"vcpu": 1}}, r"flavor: unknown field 'vcpu' \(did you mean vcpus\?\)"),
        ({"flavor": {"vcpus": 1}}, r"flavor\.memory_mb: is missing"),
        ({}, "flavor: is missing"),
        ({"flavor": None}, "flavor: None is not of the class Flavor"),
        ({"flavor": "small"}, "flavor: 'small' is not a mapping"),
        ([], r"\[\] is not a mapping"),
        ("x", "'x' is not a mapping"),
        ({"flavor": {"vcpus": 1, "memory_mb": "lots"}}, r"flavor\.memory_mb: 'lots' is not a whole number"),
        ({"flavor": {"vcpus": 1, "memory_mb": 1, "extra_specs": {"a": None}}}, r"flavor\.extra_specs\.a: None"),
        ({"flavor": {"vcpus": 1, "memory_mb": 1}, "retry": {"hosts": [["h1"]]}}, r"retry\.hosts\[0\]: "),
        ({"flavor": {"vcpus": 1, "memory_mb": 1}, "retry": {"hosts": None}}, r"retry\.hosts: None"),
        ({"flavor": {"vcpus": 1, "memory_mb": 1}, "instance_group": {"policy": "x"}}, r"instance_group\.policy: 'x'"),
        ({"flavor": {"vcpus": 1, "memory_mb": 1}, "scheduler_hints": {"a": 1}}, r"scheduler_hints\.a: 1"),
        ({"flavor": {"vcpus": 1, "memory_mb": 1}, "image": {"properties": []}}, r"image\.properties"),
    ],
)
def test_a_bad_request_is_an_error_that_names_the_field(data, message):
    with pytest.raises(FieldError, match=f"^{message}"):
        request_from_json(data)


def test_the_field_is_named_from_where_the_request_stands():
    with pytest.raises(FieldError, match=r"^requests\[3\]\.flavor\.vcpus: 'x' is not a whole number"):
        request_from_json({"flavor": {"vcpus": "x", "memory_mb": 1}}, "requests[3]")


def test_a_decision_is_what_the_json_module_takes():
    table = make_hosts(host=["a", "b"], vcpus_total=4, total_usable_ram_mb=[4096, 8192])
    pipeline = Pipeline([], [RAMWeigher()])
    decision = pipeline.place(table, make_spec(), ["i1"], randomness=random.Random(0), clock=lambda: 0, alternates=1)
    told = through_text(to_json(decision))
    (selection,) = told["selections"]
    assert (selection["host"], selection["instance_uuid"], selection["weight"]) == ("b", "i1", 1.0)
    expected = {"raw": 8192.0, "normalised": 1.0, "multiplier": 1.0, "contribution": 1.0}
    assert selection["scores"] == {"RAMWeigher": expected}
    assert selection["alternates"] == [{"host": "a", "node": "a"}]
    assert told["decision"]["summary"] == "1 of 1 placed on b"
    assert told["decision"]["steps"][0] == {"stage": "capacity", "name": "disabled", "before": 2, "after": 2}
    assert [each["host"] for each in told["decision"]["best"]] == ["b", "a"]


def test_a_selection_of_a_single_host_has_no_scores():
    told = to_json(Selection("a", "a", {"memory_mb": 1536.0}, "i1"))
    assert (told["weight"], told["scores"], told["limits"]) == (0.0, {}, {"memory_mb": 1536.0})


def test_a_ranked_host_shows_its_scores():
    told = to_json(Ranked("a", "n", 0.5, {"RAMWeigher": Score(1.0, 0.5, -3.0)}))
    assert told == {
        "host": "a",
        "node": "n",
        "weight": 0.5,
        "scores": {"RAMWeigher": {"raw": 1.0, "normalised": 0.5, "multiplier": -3.0, "contribution": -1.5}},
    }


def test_sets_are_sorted_lists():
    assert to_json({"traits": frozenset({"B", "A"})}) == {"traits": ["A", "B"]}
