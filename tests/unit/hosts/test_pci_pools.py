# SPDX-License-Identifier: Apache-2.0
"""PCI pools of a host: every worked example of the specification, and laws that hold for all pools."""

from __future__ import annotations

import copy
import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import FieldError
from roost.hosts.encoded import Encoded
from roost.hosts.pci import (
    PciUnavailable,
    Pool,
    consume_devices,
    devices_reason,
    free_devices,
    free_devices_per_cell,
    matches,
    pools_from_json,
    providers_for,
    release_devices,
    supports,
)
from roost.model.json_records import to_json
from roost.model.pci import PCI_POLICIES, PciRequest


def pool(count=2, node=0, vendor="8086", product="154c", **properties):
    return {"vendor_id": vendor, "product_id": product, "count": count, "numa_node": node, **properties}


def pools(*listed):
    return pools_from_json(list(listed))


def wants(count=1, policy=None, **wanted):
    return PciRequest(count, (wanted or {"vendor_id": "8086"},), policy, request_id="r1")


# --- pools from JSON ------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_no_list_is_no_pools(nothing):
    assert pools_from_json(nothing) == ()


def test_pools_with_fewest_keys_come_first_and_ties_keep_their_order():
    found = pools(pool(1, a="1", b="2"), pool(2, a="x"), pool(3), pool(4, b="y"), pool(5))
    assert [each.count for each in found] == [3, 5, 2, 4, 1]


def test_a_missing_numa_node_is_a_null_one():
    bare = {"vendor_id": "8086", "product_id": "154c", "count": 1}
    assert pools(bare) == pools(bare | {"numa_node": None})
    assert pools(bare)[0].numa_node is None


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (True, "True"), (1.5, "1.5"), ("physnet1", "physnet1")])
def test_scalars_of_tags_become_text(value, text):
    assert pools(pool(tag=value))[0]["tag"] == text


def test_ids_written_as_numbers_become_text():
    assert pools(pool(vendor=8086))[0]["vendor_id"] == "8086"


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, ""),
        (["x"], "[0]"),
        ([{}], "[0].vendor_id"),
        ([pool(), {"vendor_id": "8086", "count": 1}], "[1].product_id"),
        ([{"vendor_id": "8086", "product_id": "154c"}], "[0].count"),
        ([pool(vendor=None)], "[0].vendor_id"),
        ([pool(-1)], "[0].count"),
        ([pool("2")], "[0].count"),
        ([pool(node="0")], "[0].numa_node"),
        ([pool(tag={})], "[0].tag"),
        ([pool(tag=[[]])], "[0].tag[0]"),
    ],
)
def test_bad_pools_are_refused_with_their_field(data, field):
    with pytest.raises(FieldError) as caught:
        pools_from_json(data)
    assert caught.value.field == field


def test_error_seen_from_the_host_names_the_pool():
    with pytest.raises(FieldError) as caught:
        pools(pool(-1))
    assert caught.value.under("hosts[3].pci_pools").field == "hosts[3].pci_pools[0].count"


# --- the record -----------------------------------------------------------------------------------


def test_pool_reads_like_a_mapping():
    [found] = pools(pool(3, 1, dev_type="type-VF"))
    assert (found["vendor_id"], found["count"], found["numa_node"]) == ("8086", 3, 1)
    assert (found.get("dev_type"), found.get("count"), found.get("nothing"), found.get("x", 7)) == (
        "type-VF",
        3,
        None,
        7,
    )
    with pytest.raises(KeyError):
        found["nothing"]


def test_pool_as_json_is_what_it_was_made_from():
    written = pool(3, 1, dev_type="type-VF", capabilities=["a", "b"])
    assert pools(written)[0].to_dict() == written
    assert to_json(pools(written)) == [written]
    assert pools_from_json(to_json(pools(written))) == pools(written)


def test_pools_that_list_their_tags_in_another_order_are_equal():
    one, other = pools(pool(a="1", b="2")), pools(pool(b="2", a="1"))
    assert one == other
    assert hash(one) == hash(other)


def test_pool_equals_no_other_count_and_nothing_else():
    [one] = pools(pool(1))
    assert one != one.with_count(2)
    assert one.with_count(2).with_count(1) == one
    assert one != "pool"


def test_pool_cannot_be_changed():
    [one] = pools(pool(1))
    with pytest.raises(AttributeError):
        one.count = 2
    with pytest.raises(AttributeError):
        del one.count


def test_pool_survives_copying_and_pickling():
    [one] = pools(pool(3, 1, tag="x"))
    for twin in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert twin == one
        assert hash(twin) == hash(one)
        assert twin.comparable == one.comparable


def test_pool_shows_what_it_is():
    assert "'vendor_id': '8086'" in repr(pools(pool())[0])


def test_hosts_with_equal_pools_share_a_code():
    column = Encoded([pools(pool(2)), pools(pool(2)), pools(pool(1)), ()])
    assert column.codes.tolist() == [0, 0, 1, 2]


# --- counting -------------------------------------------------------------------------------------


def test_free_devices_are_counted_per_cell_and_in_all():
    found = pools(pool(2, 0), pool(3, 1, vendor="10de"), pool(4, 0, tag="x"), pool(5, None))
    assert free_devices_per_cell(found) == {0: 6, 1: 3}
    assert free_devices(found) == 14
    assert free_devices(()) == 0


# --- property match -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, True),
        ({"vendor_id": "8086"}, True),
        ({"vendor_id": "8086", "product_id": "154c"}, True),
        ({"vendor_id": "8086", "product_id": "154d"}, False),
        ({"product_id": "154C"}, True),
        ({"physical_network": "physnet1"}, True),
        ({"missing": "x"}, False),
        ({"missing": None}, True),
        ({"missing": "None"}, False),
        ({"vendor_id": None}, False),
        ({"numa_node": "0"}, False),
        ({"capabilities": ("a",)}, True),
        ({"capabilities": ("b", "a")}, True),
        ({"capabilities": ()}, True),
        ({"capabilities": ("a", "z")}, False),
        ({"capabilities": ("A",)}, False),
        ({"capabilities": "a"}, False),
        ({"vendor_id": ("8086",)}, False),
        ({"resource_class": "X", "traits": "A", "rp_uuids": "u"}, True),
        ({"vendor_id": "10de", "resource_class": "X"}, False),
    ],
)
def test_every_property_must_be_there(wanted, expected):
    [found] = pools(pool(physical_network="PhysNet1", capabilities=["a", "b", "c"]))
    assert matches(found, PciRequest(1, (wanted,))) is expected


def test_one_alternative_is_enough_and_none_matches_nothing():
    [found] = pools(pool())
    assert matches(found, PciRequest(1, ({"vendor_id": "10de"}, {"vendor_id": "8086"})))
    assert not matches(found, PciRequest(1, ({"vendor_id": "10de"}, {"vendor_id": "15b3"})))
    assert not matches(found, PciRequest(1, ()))


def test_properties_of_two_alternatives_do_not_add_up():
    assert not supports(
        pools(pool()), [PciRequest(1, ({"vendor_id": "8086", "a": "1"}, {"vendor_id": "10de", "product_id": "154c"}))]
    )


# --- the worked examples --------------------------------------------------------------------------

TABLE = {
    "legacy": ("yes", "no", "yes", "no", "no", "yes"),
    None: ("yes", "no", "yes", "no", "no", "yes"),
    "preferred": ("yes", "yes", "yes", "yes", "yes", "yes"),
    "required": ("yes", "no", "no", "no", "no", "yes"),
    "socket": ("yes", "no", "no", "no", "yes", "yes"),
}
TWO_SOCKETS = {0: 0, 1: 1}
ONE_SOCKET = {0: 0, 1: 0}
SITUATIONS = (
    ("on 0, cells {0}", [pool(2, 0)], 1, [0], TWO_SOCKETS),
    ("on 0, cells {1}", [pool(2, 0)], 1, [1], TWO_SOCKETS),
    ("node None, cells {1}", [pool(2, None)], 1, [1], TWO_SOCKETS),
    ("1 on 0 + 1 on 1, want 2, cells {0}", [pool(1, 0), pool(1, 1)], 2, [0], TWO_SOCKETS),
    ("on 0, cells {1}, same socket", [pool(2, 0)], 1, [1], ONE_SOCKET),
    ("no instance topology", [pool(2, 0)], 1, None, TWO_SOCKETS),
)


@pytest.mark.parametrize("policy", TABLE)
@pytest.mark.parametrize("at", range(6), ids=[each[0] for each in SITUATIONS])
def test_policy_table(policy, at):
    _, listed, count, cells, sockets = SITUATIONS[at]
    found = supports(pools(*listed), [wants(count, policy)], cells=cells, sockets=sockets)
    assert found is (TABLE[policy][at] == "yes")


@pytest.mark.parametrize(
    ("listed", "requests", "expected"),
    [
        pytest.param([pool(2)], [wants(2)], True, id="2 of 2"),
        pytest.param([pool(2)], [wants(3)], False, id="3 of 2"),
        pytest.param([pool(2)], [wants(1), wants(1)], True, id="1+1 of 2"),
        pytest.param([pool(2)], [wants(2), wants(1)], False, id="2+1 of 2"),
        pytest.param([pool(2), pool(1, 1)], [wants(3)], True, id="3 from 2 and 1"),
        pytest.param(
            [pool(2)], [PciRequest(1, ({"vendor_id": "10de"}, {"vendor_id": "8086"}))], True, id="alternative"
        ),
        pytest.param([pool(physical_network="PhysNet1")], [wants(physical_network="physnet1")], True, id="case"),
        pytest.param([pool(dev_type="type-PF")], [wants()], False, id="plain on type-PF"),
        pytest.param([pool(dev_type="type-PF")], [wants(dev_type="type-PF")], True, id="type-PF on type-PF"),
        pytest.param([pool(dev_type="vdpa")], [wants()], False, id="plain on vdpa"),
        pytest.param([pool(dev_type="vdpa")], [wants(dev_type="vdpa")], True, id="vdpa on vdpa"),
        pytest.param([pool(remote_managed="true")], [wants()], False, id="plain on remote-managed"),
        pytest.param([pool(remote_managed="True")], [wants(remote_managed="true")], True, id="remote-managed"),
        pytest.param([pool(remote_managed="false")], [wants(remote_managed="false")], True, id="not remote-managed"),
        pytest.param([pool()], [wants(remote_managed="false")], False, id="untagged is not remote_managed=false"),
        pytest.param([pool()], [wants(live_migratable="true")], False, id="live_migratable, untagged"),
        pytest.param([pool()], [wants(live_migratable="false")], False, id="not live_migratable, untagged"),
        pytest.param([pool(live_migratable="true")], [wants(live_migratable="true")], True, id="live_migratable"),
        pytest.param([pool(live_migratable="false")], [wants(live_migratable="true")], False, id="tagged otherwise"),
        pytest.param([pool(live_migratable="false")], [wants(live_migratable="false")], True, id="tagged false"),
        pytest.param([pool(live_migratable="true")], [wants()], True, id="not wanted, tagged"),
        pytest.param([pool()], [], True, id="no requests"),
        pytest.param([], [], True, id="no requests, no pools"),
        pytest.param([], [wants()], False, id="no pools"),
        pytest.param([pool()], [wants(vendor_id="8086", resource_class="X", traits="A")], True, id="ignored keys"),
        pytest.param([pool()], [PciRequest(1, ({},))], True, id="{} matches every pool"),
        pytest.param([pool()], [PciRequest(1, ())], False, id="no alternatives"),
        pytest.param([pool()], [wants(0)], True, id="count 0"),
        pytest.param([], [wants(0)], False, id="count 0, no pools"),
        pytest.param([pool(0)], [wants(1)], False, id="an empty pool"),
    ],
)
def test_worked_examples(listed, requests, expected):
    assert supports(pools(*listed), requests) is expected


def test_live_migratable_counts_per_alternative():
    either = PciRequest(1, ({"live_migratable": "true"}, {"vendor_id": "8086"}))
    assert supports(pools(pool()), [either])
    assert supports(pools(pool(live_migratable="true", vendor="10de")), [either])


def test_an_alternative_that_asks_for_a_kind_opens_it_for_the_others():
    either = PciRequest(1, ({"vendor_id": "8086"}, {"vendor_id": "10de", "dev_type": "type-PF"}))
    assert supports(pools(pool(dev_type="type-PF")), [either])


def test_kinds_not_asked_for_do_not_count():
    listed = pools(pool(1), pool(1, dev_type="type-PF"), pool(1, dev_type="vdpa"), pool(1, remote_managed="true"))
    assert supports(listed, [wants(1)])
    assert not supports(listed, [wants(2)])


# --- NUMA affinity --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", PCI_POLICIES)
def test_empty_cells_are_no_cells(policy):
    assert supports(pools(pool(1, 7)), [wants(1, policy)], cells=[])


@pytest.mark.parametrize("sockets", [None, {}, {0: 0, 1: None}, {0: None, 1: None}, {0: 0, 1: 0, 2: None}])
def test_unknown_sockets_leave_nothing_to_the_socket_policy(sockets):
    assert not supports(pools(pool(2, 0)), [wants(1, "socket")], cells=[1], sockets=sockets)


def test_unknown_sockets_do_not_matter_where_the_cell_itself_has_enough():
    assert supports(pools(pool(2, 1)), [wants(1, "socket")], cells=[1], sockets={0: None, 1: None})


def test_socket_policy_adds_the_neighbours_to_the_cell_itself():
    listed = pools(pool(1, 0), pool(1, 1), pool(5, 2), pool(5, None))
    assert supports(listed, [wants(2, "socket")], cells=[1], sockets={0: 0, 1: 0, 2: 1})
    assert not supports(listed, [wants(3, "socket")], cells=[1], sockets={0: 0, 1: 0, 2: 1})


def test_legacy_adds_devices_of_no_known_node():
    listed = pools(pool(1, 0), pool(1, None), pool(5, 1))
    assert supports(listed, [wants(2)], cells=[0])
    assert not supports(listed, [wants(3)], cells=[0])
    assert not supports(listed, [wants(2, "required")], cells=[0])


def test_several_cells_count_together():
    assert supports(pools(pool(1, 0), pool(1, 1)), [wants(2, "required")], cells=[0, 1])


def test_near_pools_are_taken_before_pools_of_no_known_node():
    left, taken = consume_devices(pools(pool(2, None), pool(2, 0)), [wants(2)], cells=[0])
    assert [each.numa_node for each in taken] == [0]
    assert [each.numa_node for each in left] == [None]


def test_preferred_takes_far_devices_last():
    _, taken = consume_devices(pools(pool(2, 1), pool(1, None), pool(1, 0)), [wants(4, "preferred")], cells=[0])
    assert [(each.numa_node, each.count) for each in taken] == [(None, 1), (0, 1), (1, 2)]


def test_affinity_is_judged_before_kinds_not_asked_for_are_dropped():
    # Node 0 alone seems to have enough, so unknown nodes are dropped; then the type-PF devices go.
    listed = pools(pool(1, 0, dev_type="type-PF"), pool(1, None))
    assert not supports(listed, [wants(1)], cells=[0])


def test_later_requests_see_what_earlier_ones_left_near():
    listed = pools(pool(1, 0), pool(5, 1))
    assert supports(listed, [wants(1, "required"), wants(1, "preferred")], cells=[0])
    assert not supports(listed, [wants(1, "preferred"), wants(1, "required")], cells=[0])


# --- providers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mappings", "expected"),
    [
        (None, {}),
        ({}, {}),
        ({"r2-0": ["A"]}, {}),
        ({"r1-0": ["A"]}, {"A": 1}),
        ({"r1-0": ["A", "B"]}, {"A": 1}),
        ({"r1-0": ["A"], "r1-1": ["A"], "r1-2": ["B"], "r2-0": ["C"], "": ["D"]}, {"A": 2, "B": 1}),
        ({"r1-0": []}, {}),
    ],
)
def test_each_group_of_the_request_gives_its_first_provider(mappings, expected):
    assert providers_for(wants(), mappings) == expected


def test_port_requests_and_requests_without_id_have_no_providers():
    assert providers_for(PciRequest(1, ({},), request_id="r1", is_from_port=True), {"r1-0": ["A"]}) == {}
    assert providers_for(PciRequest(1, ({},)), {"r1-0": ["A"], "None-0": ["A"]}) == {}


@pytest.mark.parametrize(
    ("count", "mappings", "expected"),
    [
        pytest.param(1, {"r1-0": ["A"]}, True, id="its provider has one"),
        pytest.param(1, {"r1-0": ["C"]}, False, id="nobody has that provider"),
        pytest.param(2, {"r1-0": ["A"], "r1-1": ["B"]}, True, id="one from each"),
        pytest.param(2, {"r1-0": ["B"], "r1-1": ["B"]}, True, id="two from one"),
        pytest.param(2, {"r1-0": ["A"], "r1-1": ["A"]}, False, id="two from a pool of one"),
        pytest.param(2, {"r1-0": ["B"], "r1-1": ["C"]}, False, id="one provider of two is missing"),
        pytest.param(4, {"r2-0": ["A"]}, True, id="no group of this request: no filtering"),
    ],
)
def test_only_pools_of_the_candidates_providers_count(count, mappings, expected):
    listed = pools(pool(1, rp_uuid="A"), pool(3, rp_uuid="B"), pool(5))
    assert supports(listed, [wants(count)], mappings=mappings) is expected


def test_pools_without_provider_are_dropped():
    assert not supports(pools(pool(5)), [wants()], mappings={"r1-0": ["A"]})


def test_devices_are_taken_per_provider():
    listed = pools(pool(1, rp_uuid="A"), pool(3, rp_uuid="B"))
    left, taken = consume_devices(listed, [wants(2)], mappings={"r1-0": ["B"], "r1-1": ["B"]})
    assert [(each["rp_uuid"], each.count) for each in taken] == [("B", 2)]
    assert [(each["rp_uuid"], each.count) for each in left] == [("A", 1), ("B", 1)]


def test_requests_have_each_their_own_providers():
    listed = pools(pool(1, rp_uuid="A"), pool(1, rp_uuid="B"))
    two = [wants(), PciRequest(1, ({},), request_id="r2")]
    assert supports(listed, two, mappings={"r1-0": ["A"], "r2-0": ["B"]})
    assert not supports(listed, two, mappings={"r1-0": ["A"], "r2-0": ["A"]})


# --- taking and giving back -----------------------------------------------------------------------


def test_devices_are_taken_from_the_pools_in_order_and_empty_pools_go():
    listed = pools(pool(1, tag="x"), pool(2), pool(2, 1))
    left, taken = consume_devices(listed, [wants(3)])
    assert taken == pools(pool(2), pool(1, 1))
    assert left == pools(pool(1, 1), pool(1, tag="x"))


def test_taking_leaves_the_given_pools_alone():
    listed = pools(pool(2))
    consume_devices(listed, [wants(1)])
    assert listed == pools(pool(2))


def test_taking_nothing_leaves_everything():
    assert consume_devices(pools(pool(2)), []) == (pools(pool(2)), ())
    assert consume_devices(pools(pool(2)), [wants(0)]) == (pools(pool(2)), ())


def test_what_cannot_be_taken_raises_with_the_reason():
    with pytest.raises(PciUnavailable, match=r"3 devices 8086:\* asked; 2 free"):
        consume_devices(pools(pool(2)), [wants(3)])


def test_given_back_devices_join_their_pool():
    listed = pools(pool(2), pool(2, 1))
    left, taken = consume_devices(listed, [wants(1)])
    assert release_devices(left, taken) == listed


def test_a_pool_that_was_emptied_comes_back_in_its_place_by_number_of_keys():
    listed = pools(pool(1), pool(2, tag="x"))
    left, taken = consume_devices(listed, [wants(1)])
    assert left == pools(pool(2, tag="x"))
    assert release_devices(left, taken) == listed


def test_devices_given_back_from_two_requests_add_up():
    left, taken = consume_devices(pools(pool(2)), [wants(1), wants(1)])
    assert left == ()
    assert release_devices(left, taken) == pools(pool(2))


# --- reasons --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "requests", "place", "sentence"),
    [
        (
            [pool(1, vendor="10de", product="1eb8"), pool(5)],
            [wants(2, vendor_id="10de", product_id="1eb8")],
            {},
            "2 devices 10de:1eb8 asked; 1 free",
        ),
        (
            [pool(2, 1)],
            [wants(1, "required", vendor_id="8086", product_id="154c")],
            {"cells": [0]},
            "free 8086:154c devices are on NUMA node 1; the request needs node 0",
        ),
        (
            [pool(2, 1), pool(1, 2), pool(1, None)],
            [wants(1, "required", product_id="154c")],
            {"cells": [3, 0]},
            "free *:154c devices are on NUMA nodes 1 and 2 and no known NUMA node; the request needs nodes 0 and 3",
        ),
        (
            [pool(2, None)],
            [wants(1, "required", dev_type="type-VF")],
            {"cells": [0]},
            "1 device type-VF asked; 0 free",
        ),
        (
            [pool(2, None)],
            [PciRequest(1, ({},), "required")],
            {"cells": [0]},
            "free *:* devices are on no known NUMA node; the request needs node 0",
        ),
        (
            [pool(2, 1)],
            [wants(1, "socket")],
            {"cells": [0], "sockets": {0: 0, 1: 1}},
            "free 8086:* devices are on NUMA node 1; the request needs the socket of node 0",
        ),
        (
            [pool(2, 1)],
            [wants(1, "socket")],
            {"cells": [0], "sockets": {0: 0, 1: None}},
            "the request needs 8086:* devices on the socket of node 0; which socket a node is on is not known",
        ),
        (
            [pool(1, 0), pool(1, 1)],
            [wants(2)],
            {"cells": [0]},
            "2 devices 8086:* asked; 2 free, less 1 too far from the instance's NUMA nodes",
        ),
        (
            [pool(1, 1)],
            [wants(2)],
            {"cells": [0]},
            "2 devices 8086:* asked; 1 free, less 1 too far from the instance's NUMA nodes",
        ),
        (
            [pool(1), pool(2, dev_type="type-PF"), pool(1, dev_type="vdpa"), pool(3, remote_managed="true")],
            [wants(2)],
            {},
            "2 devices 8086:* asked; 7 free, less 2 type-PF, 1 vdpa and 3 remote-managed",
        ),
        (
            [pool(2)],
            [wants(2), wants(1)],
            {},
            "1 device 8086:* asked; 2 free, less 2 for the instance's other requests",
        ),
        (
            [pool(1, rp_uuid="A"), pool(3, rp_uuid="B")],
            [wants(2)],
            {"mappings": {"r1-0": ["A"], "r1-1": ["A"]}},
            "2 devices 8086:* asked, 2 of them from provider A, whose pool has 1",
        ),
        (
            [pool(3, rp_uuid="B")],
            [wants(2)],
            {"mappings": {"r1-0": ["A"], "r1-1": ["B"]}},
            "2 devices 8086:* asked, 1 of them from provider A, whose pool has 0",
        ),
        (
            [pool(1)],
            [PciRequest(2, ({"vendor_id": "8086"}, {"vendor_id": "10de", "tag": "x"}, {"vendor_id": "8086"}))],
            {},
            "2 devices 8086:* or 10de:* tag=x asked; 1 free",
        ),
        (
            [pool(1)],
            [PciRequest(2, ({"resource_class": "GPU"},), alias_name="gpu")],
            {},
            "2 devices gpu asked; 1 free",
        ),
        ([pool(1)], [PciRequest(1, ())], {}, "1 device of no kind asked; 0 free"),
        ([], [wants(0)], {}, "0 devices 8086:* asked; 0 free"),
    ],
)
def test_reason_names_the_numbers(listed, requests, place, sentence):
    assert devices_reason(pools(*listed), requests, **place) == sentence


def test_there_is_no_reason_where_all_fits():
    assert devices_reason(pools(pool(2)), [wants(2)]) == ""


# --- laws -----------------------------------------------------------------------------------------

VENDORS = st.sampled_from(["8086", "10de", "10DE"])
NODES = st.sampled_from([None, 0, 1, 2])
TAGS = st.fixed_dictionaries(
    {},
    optional={
        "dev_type": st.sampled_from(["type-PCI", "type-PF", "type-VF", "vdpa"]),
        "remote_managed": st.sampled_from(["true", "false"]),
        "live_migratable": st.sampled_from(["true", "false"]),
        "rp_uuid": st.sampled_from(["A", "B"]),
    },
)
POOLS = st.lists(
    st.builds(
        lambda count, node, vendor, tags: pool(count, node, vendor, **tags), st.integers(0, 4), NODES, VENDORS, TAGS
    ),
    max_size=6,
).map(pools_from_json)
SPECS = st.fixed_dictionaries({}, optional={"vendor_id": VENDORS}).flatmap(
    lambda base: TAGS.map(lambda tags: base | {key: value for key, value in tags.items() if key != "rp_uuid"})
)
REQUESTS = st.lists(
    st.builds(
        PciRequest,
        st.integers(0, 4),
        st.lists(SPECS | st.just({}), min_size=0, max_size=2).map(tuple),
        st.sampled_from([None, *PCI_POLICIES]),
        request_id=st.sampled_from([None, "r1", "r2"]),
    ),
    max_size=3,
)
PLACES = st.fixed_dictionaries(
    {},
    optional={
        "cells": st.none() | st.lists(st.integers(0, 2), max_size=2, unique=True),
        "sockets": st.sampled_from([None, {0: 0, 1: 0, 2: 1}, {0: 0, 1: None, 2: 1}]),
        "mappings": st.dictionaries(st.sampled_from(["r1-0", "r1-1", "r2-0"]), st.just(["A"]) | st.just(["B"])),
    },
)


def devices(listed: tuple[Pool, ...]) -> Counter:
    counted: Counter = Counter()
    for each in listed:
        counted[each.properties] += each.count
    return +counted


@given(POOLS, REQUESTS, PLACES)
def test_pools_support_what_can_be_taken_and_say_why_where_not(listed, requests, place):
    reason = devices_reason(listed, requests, **place)
    assert supports(listed, requests, **place) is (reason == "")
    if reason:
        with pytest.raises(PciUnavailable) as caught:
            consume_devices(listed, requests, **place)
        assert caught.value.message == reason
    else:
        consume_devices(listed, requests, **place)


@given(POOLS, REQUESTS, PLACES)
def test_nothing_is_lost_or_made_up_between_taking_and_giving_back(listed, requests, place):
    if not supports(listed, requests, **place):
        return
    left, taken = consume_devices(listed, requests, **place)
    assert devices(left) + devices(taken) == devices(listed)
    restored = release_devices(left, taken)
    assert devices(restored) == devices(listed)
    assert [len(each.properties) for each in restored] == sorted(len(each.properties) for each in restored)
    assert all(each.count > 0 for each in taken)


@given(POOLS, REQUESTS)
def test_without_providers_exactly_what_was_asked_is_taken(listed, requests):
    if supports(listed, requests):
        _, taken = consume_devices(listed, requests)
        assert free_devices(taken) == sum(request.count for request in requests)
        assert all(any(matches(each, request) for request in requests) for each in taken)


@given(POOLS, REQUESTS, PLACES)
def test_more_devices_elsewhere_never_hurt_a_required_policy(listed, requests, place):
    required = [PciRequest(each.count, each.spec, "required", request_id=each.request_id) for each in requests]
    more = pools_from_json([*to_json(listed), pool(3, 9)])
    cells = place.pop("cells", None) or [0]
    if supports(listed, required, cells=cells, **place):
        assert supports(more, required, cells=cells, **place)


@given(POOLS)
def test_pools_survive_json(listed):
    assert pools_from_json(to_json(listed)) == listed
