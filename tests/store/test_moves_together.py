# SPDX-License-Identifier: Apache-2.0
"""A small part of what `make soak` does with moves: the same ones from four schedulers, and random sequences."""

import pytest
from tests.soak.moving import move_together
from tests.soak.sequences import run_sequences


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_four_schedulers_give_one_answer_to_the_same_move_and_keep_its_source(databases, kind):
    assert move_together(databases.create(kind), rounds=6, seed=1)["answers"] == 48


def test_random_sequences_of_operations_agree_with_a_plain_model(databases):
    assert run_sequences(databases.create("sqlite"), count=12, seed=1)["sequences"] == 12
