# SPDX-License-Identifier: Apache-2.0
"""Claims without an answer in the real placement: released where no instance can use them, and only there."""

import uuid

import pytest

from roost.nova.claims import LONGEST_WAIT_SECONDS, AbandonedClaims, ClaimJournal

CELL0, CELL1 = 1, 2


class SmallApi:
    """An API database in memory: instance -> number of its cell."""

    cell0_id = CELL0

    def __init__(self):
        self.cells = {}

    def read_instance_cells(self, uuids):
        return {each: self.cells[each] for each in uuids if each in self.cells}


class Abandoned:
    """A claim in placement of which the journal says that it was not answered."""

    def __init__(self, cloud):
        self.cloud, self.api, self.now, self.consumer = cloud, SmallApi(), 0.0, str(uuid.uuid4())
        self.journal = ClaimJournal(None, lambda: self.now, 0)
        self.claims = AbandonedClaims(self.journal, self.api, cloud.client, lambda: self.now)
        cloud.writer.claim([cloud.request(cloud.add(), self.consumer)])
        self.journal.abandon([self.consumer])

    def look(self):
        """Whether it is held after a look, and whether it will be looked at again."""
        self.claims.release()
        return bool(self.cloud.held(self.consumer)), bool(self.journal.abandoned())


@pytest.fixture
def abandoned(cloud):
    return Abandoned(cloud)


def test_of_an_instance_that_does_not_exist_it_is_released(abandoned):
    assert abandoned.look() == (False, False)


def test_of_an_instance_that_failed_it_is_released(abandoned):
    abandoned.api.cells[abandoned.consumer] = CELL0
    assert abandoned.look() == (False, False)


def test_of_an_instance_in_a_cell_it_stays(abandoned):
    """The answer has arrived: only the note of it was lost."""
    abandoned.api.cells[abandoned.consumer] = CELL1
    assert abandoned.look() == (True, False)


def test_of_an_instance_that_is_still_in_no_cell_it_stays_and_is_looked_at_again(abandoned):
    abandoned.api.cells[abandoned.consumer] = None
    assert abandoned.look() == (True, True)
    abandoned.now += LONGEST_WAIT_SECONDS + 1
    assert abandoned.look() == (True, False)


def test_what_was_written_again_since_stays(abandoned):
    cloud, other = abandoned.cloud, abandoned.cloud.add()
    cloud.writer.claim([cloud.request(other, abandoned.consumer)])
    assert abandoned.look() == (True, False)


def test_what_is_not_held_is_forgotten(abandoned):
    abandoned.cloud.direct.delete(f"/allocations/{abandoned.consumer}")
    assert abandoned.look() == (False, False)


def test_while_cell0_is_not_known_nothing_is_released(abandoned):
    abandoned.api.cell0_id = None
    abandoned.api.cells[abandoned.consumer] = None
    assert abandoned.look() == (True, True)


def test_one_that_cannot_be_looked_at_does_not_hold_up_the_others(abandoned):
    cloud, other = abandoned.cloud, str(uuid.uuid4())
    abandoned.journal.abandon([other])
    for path in (abandoned.consumer, other):
        cloud.proxy.add("GET", f"/allocations/{path}", status=503, executes=False)
    first, second = abandoned.look(), abandoned.look()
    assert (first, second) == ((True, True), (False, False))
