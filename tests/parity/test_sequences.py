# SPDX-License-Identifier: Apache-2.0
"""What a pipeline keeps between requests never changes an answer: `sequences.py`, a tenth of `make sequences`."""

import pytest
from tests.parity import plain_weighers
from tests.parity.answers import Difference
from tests.parity.focus import FILTERS, FOCI, WEIGHERS
from tests.parity.random_pipelines import FILTER_BY_NAME, WEIGHER_BY_NAME
from tests.parity.sequences import Sequence, main, run_sequences

from roost.hosts import HostTable
from roost.plugins import registry

SEQUENCES, STEPS, PER_TEST = 200, 100, 25


@pytest.mark.parametrize("first", range(1, SEQUENCES + 1, PER_TEST))
def test_a_pipeline_that_keeps_what_it_likes_answers_as_a_new_one_and_as_the_plain_loops(first):
    tally = run_sequences(range(first, first + PER_TEST), STEPS)
    asked = tally["placed"] + tally["no host"] + tally["error"]
    assert tally["placed"] > asked / 3, "too little is placed to say much"
    assert tally["no host"] > asked / 10, "too little fails to say much"
    assert tally["compared with the plain loops"] > 0.8 * asked, "too little is compared with the plain loops"


def test_every_rule_has_sequences_of_its_own():
    names = {each.__name__ for each in (*registry.FILTERS, *registry.WEIGHERS)}
    in_focus = {each.rule for each in (*FILTERS, *WEIGHERS)}
    assert names - in_focus == {"AllHostsFilter"}, "say in focus.py what it reads and which requests it is for"
    assert in_focus <= set(FILTER_BY_NAME) | set(WEIGHER_BY_NAME)
    assert set(plain_weighers.WEIGHERS) <= in_focus
    assert len(FOCI) <= SEQUENCES / 2.8


def test_the_same_seed_is_the_same_sequence():
    assert Sequence(5).run(STEPS) == Sequence(5).run(STEPS)


def test_a_wrong_answer_is_found_and_says_how_to_repeat_it(monkeypatch, capsys):
    consume = HostTable.consume

    def consume_too_much(self, row, spec, limits=None):
        self.numbers["num_instances"][row] += 1
        return consume(self, row, spec, limits)

    monkeypatch.setattr(HostTable, "consume", consume_too_much)
    assert main(["-n", "3", "--steps", "30", "--seed", "1"]) == 1
    assert "again: python -m tests.parity.sequences --seed" in capsys.readouterr().err


def test_a_change_that_is_not_in_the_log_is_found(monkeypatch):
    monkeypatch.setattr("roost.hosts.table.ChangeLog.note", lambda self, row, columns: None)
    with pytest.raises(Difference):
        run_sequences(range(1, 4), 30)
