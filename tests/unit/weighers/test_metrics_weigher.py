# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 4.1: weights from what agents measure."""

import pytest

from roost.errors import RuleError
from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import weigh
from roost.testing import make_hosts, make_spec
from roost.weighers.metrics import MetricsWeigher

KEY = "metrics_weight_multiplier"
SETTING = ("foo=1.0", "bar=-2")


def measured(*hosts, **columns):
    """Hosts a, b, c ... with these metrics; None for a host that has no list of them."""
    lists = [None if each is None else [{"name": name, "value": each[name]} for name in each] for each in hosts]
    return make_hosts(host=list("abcdef"[: len(hosts)]), metrics=lists, **columns)


def weigher(**options):
    return MetricsWeigher(MetricsWeigher.Options(**options))


def raw(hosts, **options):
    return weigher(**options).weigh(hosts, make_spec()).tolist()


def weights(hosts, **options):
    return weigh(hosts, [weigher(**options)], make_spec()).weights.tolist()


WORKED = measured({"foo": 512, "bar": 1}, {"foo": 1024}, {"foo": 100, "bar": -50})


# --- the sum -----------------------------------------------------------------------------------------


def test_the_raw_number_is_the_sum_of_metric_times_ratio():
    hosts = measured({"foo": 512, "bar": 1}, {"foo": 100, "bar": -50, "other": 7})
    assert raw(hosts, weight_setting=SETTING) == [510.0, 200.0]
    assert weights(hosts, weight_setting=SETTING) == [1.0, 0.0]


def test_without_settings_metrics_make_no_difference():
    assert raw(WORKED) == [0.0, 0.0, 0.0]
    assert weights(WORKED) == [0.0, 0.0, 0.0]


def test_without_settings_no_metric_is_missed():
    assert weights(measured(None, {})) == [0.0, 0.0]


def test_a_metric_of_0_is_there():
    assert raw(measured({"foo": 0}, {"foo": 2}), weight_setting=("foo=1",)) == [0.0, 2.0]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        pytest.param(["foo=2"], 2.0, id="name and ratio"),
        pytest.param(["foo"], 0.0, id="no ratio: dropped"),
        pytest.param(["=3"], 0.0, id="no name: dropped"),
        pytest.param(["foo=x"], 0.0, id="no number: dropped"),
        pytest.param(["foo="], 0.0, id="empty number: dropped"),
        pytest.param(["foo=1=2"], 0.0, id="split at the first =, so 1=2 is no number"),
        pytest.param(["bad", "foo=2"], 2.0, id="the good ones stay"),
        pytest.param(["cpu.frequency=0.5"], 1200.0, id="names with dots"),
        pytest.param(["foo= 2"], 2.0, id="blanks before a number do no harm"),
        pytest.param(["foo=-2", "foo=1"], -1.0, id="a name that stands there twice counts twice"),
    ],
)
def test_each_setting_is_split_at_the_first_equals_sign(setting, expected):
    assert raw(measured({"foo": 1, "cpu.frequency": 2400}), weight_setting=tuple(setting)) == [expected]


def test_a_name_keeps_the_blank_before_the_equals_sign_and_so_matches_nothing():
    with pytest.raises(RuleError, match="no metric foo  "):
        raw(measured({"foo": 1}), weight_setting=("foo = 1",))


# --- a metric that is not there ----------------------------------------------------------------------


def test_a_required_metric_that_is_missing_fails_the_request_and_names_host_and_metric():
    with pytest.raises(RuleError, match="MetricsWeigher: host b reports no metric bar") as caught:
        weights(WORKED, weight_setting=SETTING)
    assert caught.value.nova_type == "ComputeHostMetricNotFound"
    assert "MetricsFilter" in caught.value.hint


@pytest.mark.parametrize("ratio", ["foo=1", "foo=0"])
def test_a_required_metric_is_required_whatever_its_ratio(ratio):
    with pytest.raises(RuleError):
        weights(measured({"foo": 1}, {}), weight_setting=(ratio,))


def test_a_host_without_any_list_of_metrics_has_none():
    with pytest.raises(RuleError, match="host a"):
        weights(measured(None, {"foo": 1}), weight_setting=("foo=1",))


def test_names_of_metrics_are_compared_with_their_case():
    with pytest.raises(RuleError, match="no metric Foo"):
        raw(measured({"foo": 1}), weight_setting=("Foo=1",))


@pytest.mark.parametrize("metrics", [{}, None])
def test_a_single_host_is_not_weighed_so_nothing_is_missed(metrics):
    assert weights(measured(metrics), weight_setting=SETTING) == [0.0]


def test_the_worked_example_without_a_metric_that_is_not_required():
    assert raw(WORKED, weight_setting=SETTING, required=False) == [510.0, -10000.0, 200.0]
    found = weights(WORKED, weight_setting=SETTING, required=False)
    assert [round(each, 4) for each in found] == [1.0, 0.0, 0.9705]


def test_one_missing_metric_replaces_the_whole_number_of_the_host():
    hosts = measured({"foo": 5}, {"foo": 5, "bar": 5}, None)
    settings = {"weight_setting": ("foo=1", "bar=1"), "required": False, "weight_of_unavailable": 7.5}
    assert raw(hosts, **settings) == [7.5, 10.0, 7.5]


def test_a_missing_metric_of_ratio_0_adds_nothing():
    hosts = measured({"foo": 5}, {"foo": 3, "bar": 9})
    assert raw(hosts, weight_setting=("bar=0", "foo=1"), required=False) == [5.0, 3.0]


def test_a_missing_metric_adds_nothing_where_the_multiplier_is_0():
    hosts = measured({"foo": 5}, {})
    assert raw(hosts, weight_setting=("foo=1",), required=False, weight_multiplier=0.0) == [5.0, 0.0]


def test_the_multiplier_of_the_host_s_aggregates_decides_whether_a_missing_metric_counts():
    hosts = measured({}, {}, {}, aggregates=[[{KEY: "0"}], [{KEY: "2"}], []])
    settings = {"weight_setting": ("foo=1",), "required": False}
    assert raw(hosts, **settings) == [0.0, -10000.0, -10000.0]
    assert raw(hosts, **settings, weight_multiplier=0.0) == [0.0, -10000.0, 0.0]


# --- options -----------------------------------------------------------------------------------------


def test_an_aggregate_overrides_the_multiplier_under_a_name_of_its_own():
    aggregates = [[{KEY: "3"}, {KEY: "-2"}], [{"weight_multiplier": "9"}], [{KEY: "x"}], []]
    hosts = measured({"foo": 4}, {"foo": 4}, {"foo": 4}, {"foo": 0}, aggregates=aggregates)
    assert weights(hosts, weight_setting=("foo=1",)) == [-2.0, 1.0, 1.0, 0.0]


def test_the_defaults_are_those_of_nova():
    assert MetricsWeigher.Options() == MetricsWeigher.Options(1.0, (), True, -10000.0)


def test_all_options_are_read_from_the_section_metrics():
    section = {
        "weight_multiplier": "-2",
        "weight_setting": "foo=1.0, bar=-2",
        "required": "false",
        "weight_of_unavailable": "-5",
    }
    options = read_options(explicit={"metrics": section}).fill(MetricsWeigher.Options)
    assert options == MetricsWeigher.Options(-2.0, ("foo=1.0", "bar=-2"), False, -5.0)
