# SPDX-License-Identifier: Apache-2.0
import copy
import pickle
from dataclasses import dataclass, replace

import pytest

from roost.model.kinds import lazy

LOOKED_AT = []


@dataclass(frozen=True)
class Square:
    side: int

    @lazy
    def area(self):
        """The side times itself."""
        LOOKED_AT.append(self.side)
        return self.side**2

    @lazy
    def nothing(self):
        LOOKED_AT.append("nothing")

    @lazy
    def impossible(self):
        LOOKED_AT.append("impossible")
        raise ValueError("no such thing")


@pytest.fixture(autouse=True)
def nobody_looked():
    LOOKED_AT.clear()


def test_nothing_is_worked_out_until_somebody_looks():
    Square(3)
    assert LOOKED_AT == []


def test_it_is_worked_out_once():
    square = Square(3)
    assert (square.area, square.area, LOOKED_AT) == (9, 9, [3])


def test_none_is_worked_out_once_too():
    square = Square(3)
    assert (square.nothing, square.nothing, LOOKED_AT) == (None, None, ["nothing"])


def test_each_object_has_its_own():
    assert (Square(3).area, Square(4).area, LOOKED_AT) == (9, 16, [3, 4])


def test_it_makes_no_difference_to_equality():
    looked_at, other = Square(3), Square(3)
    assert looked_at.area == 9
    assert looked_at == other
    assert hash(looked_at) == hash(other)


def test_a_changed_copy_works_it_out_again():
    square = Square(3)
    assert (square.area, replace(square, side=4).area) == (9, 16)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_has_it_already(duplicate):
    square = Square(3)
    assert (square.area, duplicate(square).area, LOOKED_AT) == (9, 9, [3])


def test_an_error_is_not_kept():
    square = Square(3)
    for _ in range(2):
        with pytest.raises(ValueError, match="no such thing"):
            _ = square.impossible
    assert LOOKED_AT == ["impossible", "impossible"]


def test_the_class_has_the_attribute_itself_with_its_docstring():
    assert isinstance(Square.area, lazy)
    assert Square.area.__doc__ == "The side times itself."
