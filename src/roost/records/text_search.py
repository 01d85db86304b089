# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of clients, in lists: parsed, and found in texts in a time that grows with their length alone.

Databases differ in what they understand, and one that backtracks can take a minute for a name of 30 characters. So a
pattern is parsed into a tree of what all of them have in common; anything else is refused with its place. Where LIKE
can say the same, the database searches (`like_pattern`); otherwise `TextSearch` does.

It makes the tree a nondeterministic automaton, whose states are followed all at once; the steps between sets of
states are memoised, so that most characters cost a look into a dict. No pattern makes it go back.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from roost.errors import BadInput

LONGEST = 255
MOST_NODES = 1000
"""Characters that a pattern stands for, when its counted repetitions are written out."""
MOST_DEPTH = 20
"""Groups within one another."""
_CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "digit": string.digits,
    "lower": string.ascii_letters,
    "punct": string.punctuation,
    "space": string.whitespace,
    "upper": string.ascii_letters,
    "xdigit": string.hexdigits,
}
"""What stands in [[:NAME:]] -> its characters; upper and lower case are equal everywhere."""
_SHORT = {"d": string.digits, "w": string.ascii_letters + string.digits + "_", "s": string.whitespace}
_CONTROL = {"t": "\t", "n": "\n", "r": "\r"}


@dataclass(frozen=True)
class Characters:
    """One character out of a set, whatever its case."""

    ranges: tuple[tuple[str, str], ...]
    is_negated: bool = False

    def __contains__(self, char: str) -> bool:
        cases = {char, char.lower(), char.upper()}
        found = any(first <= each <= last for each in cases if len(each) == 1 for first, last in self.ranges)
        return found != self.is_negated

    @property
    def only(self) -> str | None:
        """The character, where it is one that all databases compare alike."""
        if self.is_negated or len(self.ranges) != 1:
            return None
        first, last = self.ranges[0]
        return first if first == last and first.isascii() else None


ANY = Characters((), is_negated=True)


@dataclass(frozen=True)
class Start:
    """The start of the text."""


@dataclass(frozen=True)
class End:
    """The end of the text."""


@dataclass(frozen=True)
class Concatenation:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Alternatives:
    """One of several."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """A number of times; `most` None: any number from the least on."""

    part: Node
    least: int
    most: int | None


Node = Characters | Start | End | Concatenation | Alternatives | Repeat


def parse_regular_expression(field: str, text: str) -> Node:
    """The tree of a pattern; BadInput names `field` and the place of what is not understood."""
    if len(text) > LONGEST:
        raise BadInput(f"{field}: a regular expression has at most {LONGEST} characters, this one {len(text)}")
    tree = _Parser(field, text).parse()
    if (size := _size(tree)) > MOST_NODES:
        raise BadInput(f"{field}: the regular expression stands for {size} characters", f"at most {MOST_NODES}")
    return tree


def _size(node: Node) -> int:
    """Characters that a tree has with its repetitions written out."""
    if isinstance(node, Concatenation):
        return sum(map(_size, node.parts))
    if isinstance(node, Alternatives):
        return sum(map(_size, node.options)) + 1
    if isinstance(node, Repeat):
        return (_size(node.part) + 1) * max(node.least, node.most or 1, 1)
    return 1


class _Parser:
    """Recursive descent over one pattern."""

    def __init__(self, field: str, text: str) -> None:
        self._field, self._text, self._at, self._depth = field, text, 0, 0

    def parse(self) -> Node:
        found = self._choice()
        if self._at < len(self._text):
            raise self._refusal("a bracket ) without its (")
        return found

    def _refusal(self, problem: str, at: int | None = None) -> BadInput:
        place = (self._at if at is None else at) + 1
        what = f"{self._field}: {self._text[:60]!r} is no regular expression that is understood here"
        return BadInput(f"{what}: {problem} at character {place}", "put \\ before a character that stands for itself")

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _take(self, length: int = 1) -> str:
        found = self._peek(length)
        self._at += length
        return found

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._peek() == "|":
            self._take()
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Alternatives(tuple(options))

    def _sequence(self) -> Node:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))

    def _repeated(self) -> Node:
        began = self._at
        part = self._atom()
        bounds = self._bounds()
        if bounds is None:
            return part
        if self._text[began] in ("^", "$"):
            raise self._refusal("a repeated ^ or $", began)
        if self._peek() == "?":  # the shortest match is one, too
            self._take()
        if self._peek() in ("*", "+", "?") or self._peek_counted():
            raise self._refusal("a repetition of a repetition without brackets")
        return Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        """Least and most of the repetition that follows; None where none does."""
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self._peek() in simple:
            return simple[self._take()]
        counted = self._peek_counted()
        if counted is None:
            return None
        began = self._at
        self._take(len(counted) + 2)
        least, comma, most = counted.partition(",")
        low, high = int(least), (int(most) if most else None) if comma else int(least)
        if max(low, high or 0) > LONGEST or (high is not None and high < low):
            raise self._refusal(f"a number of repetitions that is not 0 to {LONGEST}, or not rising", began)
        return low, high

    def _peek_counted(self) -> str | None:
        """What is in the braces that follow, if it is M, `M,` or `M,N`; other braces stand for themselves."""
        end = self._text.find("}", self._at) if self._peek() == "{" else -1
        inner = self._text[self._at + 1 : end] if end > 0 else ""
        least, _, most = inner.partition(",")
        is_count = least.isascii() and least.isdecimal() and (not most or (most.isascii() and most.isdecimal()))
        return inner if is_count and len(inner) < 10 else None

    def _atom(self) -> Node:
        char = self._peek()
        special: dict[str, Callable[[], Node]] = {"(": self._group, "[": self._set, "\\": self._escaped}
        if char in special:
            return special[char]()
        if char in ("*", "+", "?") or self._peek_counted() is not None:
            raise self._refusal(f"{char} with nothing to repeat")
        self._take()
        plain: dict[str, Node] = {"^": Start(), "$": End(), ".": ANY}
        return plain.get(char) or Characters(((char, char),))

    def _group(self) -> Node:
        began = self._at
        self._take()
        if self._peek() == "?":
            if self._peek(2) != "?:":
                raise self._refusal("a group of a special kind, or a look around", began)
            self._take(2)
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._refusal(f"more than {MOST_DEPTH} groups within one another", began)
        found = self._choice()
        if self._take() != ")":
            raise self._refusal("a bracket ( without its )", began)
        self._depth -= 1
        return found

    def _escaped(self) -> Node:
        began = self._at
        char = self._take(2)[1:]
        if char.lower() in _SHORT:
            return Characters(_ranges(_SHORT[char.lower()]), is_negated=char.isupper())
        return Characters(((one := self._literal(char, began), one),))

    def _literal(self, char: str, began: int) -> str:
        """The character that a backslash and this one stand for."""
        if char in _CONTROL:
            return _CONTROL[char]
        if not char or (char.isascii() and char.isalnum()):
            raise self._refusal(f"\\{char}, which is no character", began)
        return char

    # --- sets --------------------------------------------------------------------------------------------

    def _set(self) -> Node:
        began = self._at
        self._take()
        is_negated = self._peek() == "^" and bool(self._take())
        ranges: list[tuple[str, str]] = []
        while self._peek() != "]" or not ranges:
            if self._peek() == "":
                raise self._refusal("a bracket [ without its ]", began)
            ranges += self._member()
        self._take()
        return Characters(tuple(ranges), is_negated)

    def _member(self) -> tuple[tuple[str, str], ...]:
        """What the next member of a set stands for: a class, a range or a character."""
        began = self._at
        if self._peek() == "[" and self._peek(2)[1:] in (":", ".", "="):
            return self._class()
        if self._peek() == "\\" and self._peek(2)[1:] in _SHORT:
            return _ranges(_SHORT[self._take(2)[1:]])
        first = self._set_char()
        if self._peek() != "-" or self._peek(2)[1:] in ("]", ""):
            return ((first, first),)
        self._take()
        last = self._set_char()
        if last < first:
            raise self._refusal("a range that runs backwards", began)
        return ((first, last),)

    def _set_char(self) -> str:
        began, char = self._at, self._take()
        return self._literal(self._take(), began) if char == "\\" else char

    def _class(self) -> tuple[tuple[str, str], ...]:
        began, end = self._at, self._text.find(":]", self._at)
        name = self._text[self._at + 2 : end] if end > 0 else ""
        if self._peek(2) != "[:" or name not in _CLASSES:
            raise self._refusal(f"a class that is none of {', '.join(_CLASSES)}", began)
        self._take(len(name) + 4)
        return _ranges(_CLASSES[name])


def _ranges(characters: str) -> tuple[tuple[str, str], ...]:
    return tuple((each, each) for each in characters)


# --- LIKE --------------------------------------------------------------------------------------------

LIKE_ESCAPE = "!"


@dataclass(frozen=True)
class LikePattern:
    """A pattern of LIKE, which every text has that a regular expression is found in."""

    text: str
    is_exact: bool
    """Whether no other text has it."""


def like_pattern(tree: Node) -> LikePattern:
    """The narrowest pattern of LIKE that leaves out no text in which a regular expression is found."""
    parts = list(tree.parts) if isinstance(tree, Concatenation) else [tree]
    starts, ends = parts[:1] == [Start()], parts[-1:] == [End()]
    body = Concatenation(tuple(parts[starts : len(parts) - ends]))
    text = ("" if starts else "%") + "".join(_like_pieces(body)) + ("" if ends else "%")
    return LikePattern(_without_doubles(text), _is_like(body))


def _without_doubles(text: str) -> str:
    """Without a % that follows another one."""
    found: list[str] = []
    pieces = iter(text)
    for char in pieces:
        piece = char + next(pieces) if char == LIKE_ESCAPE else char
        if not (piece == "%" and found[-1:] == ["%"]):
            found.append(piece)
    return "".join(found)


def _like_pieces(node: Node) -> Iterator[str]:
    if isinstance(node, Characters):
        char = node.only
        yield "_" if char is None else f"{LIKE_ESCAPE}{char}" if char in ("%", "_", LIKE_ESCAPE) else char
    elif isinstance(node, Concatenation):
        for each in node.parts:
            yield from _like_pieces(each)
    elif isinstance(node, Repeat):
        for _ in range(node.least):
            yield from _like_pieces(node.part)
        if node.most != node.least:
            yield "%"
    elif isinstance(node, Alternatives):
        yield "%"


def _is_like(node: Node) -> bool:
    """Whether LIKE can say just this."""
    if isinstance(node, Characters):
        return node == ANY or node.only is not None
    if isinstance(node, Concatenation):
        return all(map(_is_like, node.parts))
    if isinstance(node, Repeat):
        return _is_like(node.part) if node.most == node.least else node.part == ANY and node.most is None
    return False


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
