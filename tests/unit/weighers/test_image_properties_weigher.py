# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 4.5: images of a kind together, or apart."""

import random

import pytest

from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import weigh
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec
from roost.weighers.image_properties import ImagePropertiesWeigher

KEY = "image_props_weight_multiplier"
WINDOWS = {"os_distro": "windows", "hw_machine_type": "q35"}
LINUX = {"os_distro": "linux", "hw_machine_type": "q35"}


def running(*hosts, **columns):
    """Per host, the image properties of each of its instances."""
    lists = [
        [{"uuid": f"i{at}-{number}", "image_props": each} for number, each in enumerate(held)]
        for at, held in enumerate(hosts)
    ]
    return make_hosts(instances=lists, **columns)


def weigher(multiplier=1.0, setting=()):
    options = ImagePropertiesWeigher.Options(
        image_props_weight_multiplier=multiplier, image_props_weight_setting=setting
    )
    return ImagePropertiesWeigher(options)


def raw(hosts, image=WINDOWS, **options):
    return weigher(**options).weigh(hosts, make_spec(image=image)).tolist()


def weights(hosts, image=WINDOWS, **options):
    return weigh(hosts, [weigher(**options)], make_spec(image=image)).weights.tolist()


HOSTS = running([WINDOWS, WINDOWS], [LINUX, {"os_distro": "windows"}], [LINUX], [])


def test_every_pair_of_name_and_value_that_an_instance_shares_counts_once():
    assert raw(HOSTS) == [4.0, 2.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("multiplier", "expected"),
    [
        pytest.param(1.0, [1.0, 0.5, 0.25, 0.0], id="positive brings them together"),
        pytest.param(-2.0, [-2.0, -1.0, -0.5, 0.0], id="negative keeps them apart"),
    ],
)
def test_hosts_are_weighed_between_the_least_and_the_most_alike(multiplier, expected):
    assert weights(HOSTS, multiplier=multiplier) == expected


def test_a_setting_gives_each_property_its_ratio_and_the_others_0():
    assert raw(HOSTS, setting=("os_distro=2.5",)) == [5.0, 2.5, 0.0, 0.0]
    assert raw(HOSTS, setting=("os_distro=10", "hw_machine_type=-1")) == [18.0, 9.0, -1.0, 0.0]
    assert raw(HOSTS, setting=("os_type=1",)) == [0.0, 0.0, 0.0, 0.0]


def test_of_two_settings_for_a_property_the_later_wins_and_bad_ones_are_dropped():
    assert raw(HOSTS, setting=("os_distro=1", "nonsense", "=4", "a=b", "os_distro=3")) == [6.0, 3.0, 0.0, 0.0]


def test_a_ratio_is_multiplied_with_the_count_and_not_summed_up():
    hosts = running([{"os_distro": "windows"}] * 6)
    assert raw(hosts, setting=("os_distro=0.1",)) == [0.1 * 6]
    assert 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 != 0.1 * 6


@pytest.mark.parametrize(
    ("asked", "has", "shared"),
    [
        pytest.param({"hw_cpu_cores": 4}, {"hw_cpu_cores": "4"}, 1.0, id="numbers as texts"),
        pytest.param({"hw_boot_menu": "true"}, {"hw_boot_menu": "True"}, 1.0, id="truth values as texts"),
        pytest.param({"os_distro": "windows"}, {"os_distro": "Windows"}, 0.0, id="case matters"),
        pytest.param({"os_distro": "windows"}, {"os_type": "windows"}, 0.0, id="the name matters"),
    ],
)
def test_values_are_compared_as_texts(asked, has, shared):
    assert raw(running([has]), image=asked) == [shared]


@pytest.mark.parametrize("image", [None, {}])
def test_a_request_without_image_properties_shares_none(image):
    assert raw(HOSTS, image=image) == [0.0, 0.0, 0.0, 0.0]


def test_an_instance_whose_image_nobody_knows_adds_nothing():
    assert raw(make_hosts(instances=[["i1", "i2"], []])) == [0.0, 0.0]


def test_an_instance_placed_earlier_in_the_request_adds_nothing_yet():
    hosts = make_hosts(2, vcpus_total=8, total_usable_ram_mb=8192)
    pipeline = Pipeline([], [weigher(multiplier=-1.0)])
    spec = make_spec(image=WINDOWS)
    decision = pipeline.place(hosts, spec, ["n1", "n2"], randomness=random.Random(0), clock=lambda: 0)
    assert [each.host for each in decision.selections] == ["host1", "host1"]


# --- multipliers -------------------------------------------------------------------------------------


def test_it_is_off_unless_said_otherwise():
    assert ImagePropertiesWeigher().multiplier() == 0.0
    assert raw(HOSTS, multiplier=0.0) == [0.0, 0.0, 0.0, 0.0]


def test_an_aggregate_alone_does_not_switch_it_on():
    hosts = running([WINDOWS], [], aggregates=[[{KEY: "5"}], [{KEY: "5"}]])
    assert raw(hosts, multiplier=0.0) == [0.0, 0.0]
    assert weights(hosts, multiplier=0.0) == [0.0, 0.0]


def test_an_aggregate_overrides_the_multiplier_of_its_hosts():
    aggregates = [[{KEY: "5"}, {KEY: "-3"}], [{KEY: "x"}], [{KEY: "0"}], []]
    hosts = running([WINDOWS], [WINDOWS], [WINDOWS], [], aggregates=aggregates)
    assert weights(hosts, multiplier=2.0) == [-3.0, 2.0, 0.0, 0.0]


def test_both_options_are_read_from_the_section_filter_scheduler():
    section = {KEY: "-1.5", "image_props_weight_setting": "os_distro=2, hw_machine_type=0"}
    options = read_options(explicit={"filter_scheduler": section}).fill(ImagePropertiesWeigher.Options)
    assert options == ImagePropertiesWeigher.Options(-1.5, ("os_distro=2", "hw_machine_type=0"))
