# SPDX-License-Identifier: Apache-2.0
"""Finds a regular expression in texts, in a time that grows with their length alone.

A tree becomes a nondeterministic automaton, whose states are followed all at once; the steps between sets of states
are memoised, so that most characters cost a look into a dict. No pattern makes it go back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roost.errors import BadInput
from roost.records.regular_expression import (
    Alternatives,
    Characters,
    Concatenation,
    End,
    LikePattern,
    Node,
    Repeat,
    Start,
    like_pattern,
    parse_regular_expression,
)

MOST_WORK = 500_000
"""Steps of single states that all texts of a search may take, without those that are memoised: a second or two."""
MOST_MEMOISED = 20_000
"""Steps that are memoised; with one more, all are forgotten."""
Label = Characters | Start | End | None
"""What takes the automaton from a state to its successors; None: nothing has to."""


@dataclass
class _State:
    label: Label
    next: list[int] = field(default_factory=list)


class _Automaton:
    """The states of a tree, by number: 0 is the end of a match, `start` its begin."""

    def __init__(self, tree: Node) -> None:
        self.states = [_State(None)]  # the end of a match, which leads nowhere
        self.start = self._add(tree, 0)

    def _new(self, label: Label, *successors: int) -> int:
        self.states.append(_State(label, [*successors]))
        return len(self.states) - 1

    def _add(self, node: Node, then: int) -> int:
        """The state from which a node is read before `then` is reached."""
        if isinstance(node, Concatenation):
            for each in reversed(node.parts):
                then = self._add(each, then)
            return then
        if isinstance(node, Alternatives):
            return self._new(None, *(self._add(each, then) for each in node.options))
        if isinstance(node, Repeat):
            return self._add_repeat(node, then)
        return self._new(node, then)

    def _add_repeat(self, node: Repeat, then: int) -> int:
        if node.most is None:
            loop = self._new(None, then)
            self.states[loop].next.append(self._add(node.part, loop))
            then = loop
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._new(None, end, self._add(node.part, then))
        for _ in range(node.least):
            then = self._add(node.part, then)
        return then

    def reach(self, begin: frozenset[int], *, at_start: bool, at_end: bool = False) -> frozenset[int]:
        """The states that are reached without a character."""
        found, waiting = set(begin), list(begin)
        while waiting:
            state = self.states[waiting.pop()]
            if state.label is None or (state.label == Start() and at_start) or (state.label == End() and at_end):
                new = [each for each in state.next if each not in found]
                found.update(new)
                waiting += new
        return frozenset(found)


class TextSearch:
    """Whether a regular expression is found in a text, upper and lower case being equal. For one thread."""

    def __init__(self, field: str, pattern: str) -> None:
        """BadInput names `field` where the pattern is not understood."""
        self._field = field
        tree = parse_regular_expression(field, pattern)
        self.like: LikePattern = like_pattern(tree)
        """What LIKE can say of it."""
        self._automaton = _Automaton(tree)
        self._begin = frozenset((self._automaton.start,))
        self._first = self._automaton.reach(self._begin, at_start=True)
        self._ends: dict[frozenset[int], bool] = {}
        self.work = 0
        """Steps of single states that were taken so far, without those that were memoised."""
        self._steps: dict[frozenset[int], dict[str, frozenset[int]]] = {}
        self._memoised = 0

    def is_in(self, text: str) -> bool:
        """Whether it is found; BadInput where the search costs too much."""
        states = self._first
        for char in text:
            if 0 in states:
                return True
            found = self._steps.get(states, {}).get(char)
            states = self._step(states, char) if found is None else found
        return self._is_end(states) if text else 0 in self._automaton.reach(states, at_start=True, at_end=True)

    def _is_end(self, states: frozenset[int]) -> bool:
        """Whether a match may end where a text that is not empty does."""
        if states not in self._ends:
            self._ends[states] = 0 in self._automaton.reach(states, at_start=False, at_end=True)
        return self._ends[states]

    def _step(self, states: frozenset[int], char: str) -> frozenset[int]:
        """The states after one more character, at which a match may also begin."""
        self.work += len(states) + 1
        if self.work > MOST_WORK:
            problem = f"{self._field}: the regular expression takes too long for so many names"
            raise BadInput(problem, "give a simpler one, or further filters")
        moved = {
            after
            for state in states
            if isinstance(label := self._automaton.states[state].label, Characters) and char in label
            for after in self._automaton.states[state].next
        }
        found = self._automaton.reach(self._begin.union(moved), at_start=False)
        if self._memoised >= MOST_MEMOISED:
            self._steps.clear()
            self._ends.clear()
            self._memoised = 0
        self._memoised += 1
        self._steps.setdefault(states, {})[char] = found
        return found
