# SPDX-License-Identifier: Apache-2.0
"""Headroom against the plain way to count, on random small fleets: the core's promise is that they are equal."""

import random

import pytest
from tests.engines import FULL_SCAN
from tests.unit.questions.random_headroom import losses, place_until_full, random_document, random_request

from roost import Fleet, Scheduler

SEEDS = 20


@pytest.mark.parametrize("first", range(0, 2 * SEEDS, SEEDS))
def test_headroom_is_what_one_request_after_the_other_places(first):
    for seed in range(first, first + SEEDS):
        rng = random.Random(seed)
        fleet = Fleet.load(random_document(rng))
        spec = random_request(rng, fleet)
        headroom = Scheduler(fleet).headroom(spec, "rack")
        expected = place_until_full(Scheduler(fleet, engine=FULL_SCAN), spec)
        assert {each.host: each.fits for each in headroom.placed} == expected, f"seed {seed}"
        assert headroom.fits == sum(expected.values()) == sum(group.fits for group in headroom.groups)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS))
def test_worst_loss_is_that_of_trying_every_host(first):
    for seed in range(first, first + SEEDS):
        rng = random.Random(seed)
        document = random_document(rng)
        fleet, state = Fleet.load(document), rng.getstate()

        def spec_of(fleet, rng=rng, state=state):
            rng.setstate(state)
            return random_request(rng, fleet)

        worst = Scheduler(fleet).headroom(spec_of(fleet), loses_a_host=True).worst_loss
        expected = losses(document, spec_of)
        if not expected:
            assert worst is None
            continue
        assert worst.is_worst_of_all
        most = max(expected.values(), key=lambda each: (each[0], -each[1]))
        assert (worst.homeless, worst.fits) == most == expected[worst.host], f"seed {seed}"
