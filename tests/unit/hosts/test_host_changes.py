import math

import pytest

from roost.hosts.host_changes import change_service, extend_label, label, limit_remedy, name_of, room_remedy
from roost.model import Aggregate
from roost.model.remedy import AggregateChange, HostChange, OptionChange, RequestChange
from roost.testing import make_hosts


def host(**columns):
    return next(iter(make_hosts(**{name: [value] for name, value in columns.items()})))


def room(asked, left, most):
    remedy = room_remedy(
        host(),
        "CPUs",
        asked=asked,
        left=left,
        most=most,
        free=lambda count: HostChange("host1", "free", count),
        ask=lambda count: (RequestChange("ask", count),),
    )
    return remedy and (remedy.text, [each.value for each in remedy.changes])


@pytest.mark.parametrize(
    ("asked", "left", "most", "text", "values"),
    [
        (4, 3, 8, "free 1 CPU on host1, or ask for at most 3", [1]),
        (4, 0.5, 8, "free 4 CPUs on host1", [4]),
        (4, -2.5, 8, "free 7 CPUs on host1", [7]),
        (9, 3, 8, "ask for at most 3 CPUs", [3]),
        (9, math.inf, 8, "ask for at most 8 CPUs", [8]),
        (9, 0, 8.5, "free 8 CPUs on host1, and ask for at most 8", [8, 8]),
        (20000, 1500, 30000, "free 18,500 CPUs on host1, or ask for at most 1,500", [18500]),
    ],
)
def test_room_is_made_by_freeing_where_that_suffices_and_else_by_asking_for_less(asked, left, most, text, values):
    assert room(asked, left, most) == (text, values)


@pytest.mark.parametrize("most", [0, 0.9, -1, math.nan])
def test_a_host_that_has_nothing_to_give_has_no_room_to_make(most):
    assert room(1, 0, most) is None


def test_a_host_of_several_nodes_is_named_by_its_node():
    hosts = list(make_hosts(host=["metal", "metal", "plain"], node=["m1", "m2", "n1"]))
    assert [name_of(each) for each in hosts] == ["m1", "m2", "plain"]


def test_only_what_is_wrong_with_a_service_is_changed_and_that_by_the_name_of_the_host():
    found = host(host="a", node="n", service={"disabled": True})
    assert change_service(found, disabled=False, up=True) == (HostChange("a", "service.disabled", False),)


def test_a_limit_is_raised_where_it_was_set():
    option = limit_remedy(host(), "most", 10, "wait")
    assert (option.text, option.changes) == (
        "wait, or raise most to 10",
        (OptionChange("filter_scheduler", "most", 10),),
    )
    aggregates = (Aggregate("a", {"most": "3"}), Aggregate("b", {"most": "20"}), Aggregate("c", {"most": "9"}))
    own = limit_remedy(host(aggregates=aggregates), "most", 10, "wait")
    assert own.text == "wait, or raise most in aggregates a, c to 10"
    assert own.changes == (AggregateChange("a", "most", "10"), AggregateChange("c", "most", "10"))


def test_a_limit_that_is_no_number_does_not_count():
    found = limit_remedy(host(aggregates=(Aggregate("a", {"most": "many"}),)), "most", 10, "wait")
    assert found.changes == (OptionChange("filter_scheduler", "most", 10),)


def test_metadata_goes_to_the_aggregate_that_has_such_metadata():
    found = host(aggregates=(Aggregate("a"), Aggregate("b", {"ssd": "false"})))
    assert label(found, {"ssd": "true"})[1] == (AggregateChange("b", "ssd", "true"),)
    assert label(found, {"gpu": "true"})[1] == (AggregateChange("a", "gpu", "true"),)


def test_a_host_in_no_aggregate_gets_a_new_one_for_its_metadata():
    (change,) = label(host(), {"ssd": "true"})[1]
    assert change == HostChange("host1", "aggregates", [{"name": "host1-ssd", "metadata": {"ssd": "true"}}])


def test_a_list_in_the_metadata_grows():
    text, change = extend_label(host(aggregates=(Aggregate("a", {"flavors": "x,y"}),)), "flavors", "z")
    assert (text, change.value) == ("add z to flavors of aggregate a", "x,y,z")
