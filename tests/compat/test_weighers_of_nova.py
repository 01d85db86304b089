# SPDX-License-Identifier: Apache-2.0
"""Weighers written for nova load as they are, and weigh as they did."""

import pytest
from tests.compat.conftest import DOCUMENT, SMALL

from roost import Flavor, RequestSpec

TIERED = Flavor(vcpus=1, memory_mb=1024, root_gb=1, extra_specs={"tier": "gold"})


def weights_of(scheduler, flavor=SMALL):
    decision = scheduler.place(RequestSpec(flavor=flavor, project_id="blue"), alternates=10)
    return {each.host: each.weight for each in decision.best}


@pytest.mark.parametrize(
    ("path", "lines", "flavor", "expected"),
    [
        ("juno_spread_weigher.SpreadWeigher", "", SMALL, {"a1": -1.0, "a2": -0.5, "b1": 0.0, "c1": 0.0}),
        (
            "juno_spread_weigher.SpreadWeigher",
            "ram_weight_multiplier = 2\n[DEFAULT]\nspread_weight_multiplier = 10\n",
            SMALL,
            {"a1": -20.0, "a2": -10.0, "b1": 0.0, "c1": 0.0},
        ),
        ("juno_density_weigher.DensityWeigher", "", SMALL, {"a1": 2.0, "a2": 1.0, "b1": 0.0, "c1": 0.0}),
        ("ocata_rank_weigher.RankWeigher", "", SMALL, {"a1": 1000.0, "a2": 2000 / 3, "b1": 1000 / 3, "c1": 0.0}),
        ("stein_tier_weigher.TierWeigher", "", SMALL, {"a1": 0.0, "a2": 0.0, "b1": 0.0, "c1": 0.0}),
        (
            "stein_tier_weigher.TierWeigher",
            "[tiers]\ntier_weight_multiplier = 3\n",
            TIERED,
            {"a1": 7.0, "a2": 7.0, "b1": 3.0, "c1": 3.0},
        ),
        ("ussuri_ram_weigher.HalfRAMWeigher", "", SMALL, {"a1": 3 / 32, "a2": 3 / 32, "b1": 1 / 16, "c1": 0.5}),
        (
            "ussuri_ram_weigher.HalfRAMWeigher",
            "ram_weight_multiplier = -4\n",
            SMALL,
            {"a1": -3 / 8, "a2": -3 / 8, "b1": -1 / 4, "c1": -2.0},
        ),
        ("dalmatian_old_iron_weigher.OldIronWeigher", "", SMALL, {"a1": 0.0, "a2": 100.0, "b1": 0.0, "c1": 0.0}),
    ],
)
def test_a_weigher_of_nova_weighs(scheduler_with, path, lines, flavor, expected):
    assert weights_of(scheduler_with(weighers=[path], lines=lines), flavor) == pytest.approx(expected)


def test_weighers_of_several_releases_add_up(scheduler_with):
    paths = ["juno_density_weigher.DensityWeigher", "dalmatian_old_iron_weigher.OldIronWeigher", "RAMWeigher"]
    expected = {"a1": 2.0 + 3 / 16, "a2": 101.0 + 3 / 16, "b1": 1 / 8, "c1": 1.0}
    assert weights_of(scheduler_with(weighers=paths)) == pytest.approx(expected)


def test_a_weigher_that_takes_an_object_is_given_one(scheduler_with):
    found = weights_of(scheduler_with(weighers=["zed_shelf_weigher.ShelfWeigher"]))
    assert found == pytest.approx({"a1": 13 / 14, "a2": 13 / 14, "b1": 1.0, "c1": 0.0})


OLD_IRON = "dalmatian_old_iron_weigher.OldIronWeigher"


def test_a_plugins_option_may_stand_among_roosts_own_in_a_file(scheduler_with):
    found = weights_of(scheduler_with(weighers=[OLD_IRON], lines="old_iron_weight_multiplier = 5\n"))
    assert found == {"a1": 0.0, "a2": 5.0, "b1": 0.0, "c1": 0.0}


def test_a_plugins_option_may_come_from_the_fleet_or_from_the_caller(scheduler_with):
    given = {"filter_scheduler": {"old_iron_weight_multiplier": 7.0}}
    by_fleet = scheduler_with(weighers=[OLD_IRON], document=DOCUMENT | {"options": given})
    assert weights_of(by_fleet)["a2"] == 7.0
    by_caller = scheduler_with(weighers=[OLD_IRON], options=given, lines="old_iron_weight_multiplier = 5\n")
    assert weights_of(by_caller)["a2"] == 7.0
    by_caller = scheduler_with(
        weighers=["stein_tier_weigher.TierWeigher"], options={"tiers": {"tier_weight_multiplier": 2.0}}
    )
    assert weights_of(by_caller, TIERED)["b1"] == 2.0
