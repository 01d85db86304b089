# SPDX-License-Identifier: Apache-2.0
"""Random inputs: noise, valid values, mutated valid values, and oversized or deeply nested ones."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from fuzz.samples import ALIAS, EXTRA_SPECS, GOOD_PROPERTIES, HINTS, NUMBERS, OPERATORS, QUERY_NAMES, REQUEST, WORDS

from roost.model.image_property_values import CONVERTERS, CONVERTERS_PER_NODE, LEGACY_NAMES

# --- texts -------------------------------------------------------------------------------------------


def noise(random: Random) -> str:
    """Up to 11 arbitrary characters: letters, punctuation, blanks, NUL, other scripts, lone surrogates."""
    alphabets = (
        "abcxyz",
        "0123456789",
        " \t\n\r\0",
        "^-,:.=<>[]{}\"'$/%\\",
        "äßΩ漢字٣²\u2028",
        "\ud800\udfff\U0001f600",
    )
    return "".join(random.choice(random.choice(alphabets)) for _ in range(random.randrange(12)))


def huge(random: Random) -> str:
    """A short pattern repeated 100 to 100,000 times."""
    patterns = (
        "9",
        "a",
        ",",
        "^",
        " ",
        "0-65535,",
        "1-2,",
        "[",
        '{"a":',
        "<or> x ",
        "gpu:1,",
        "(",
        "\\",
        "ä",
        "1.",
        "$x.",
    )
    return random.choice(patterns) * random.choice((100, 1000, 4301, 10_000, 100_000))


def mutated(random: Random, text: str) -> str:
    """The text with one or two random mutations."""
    for _ in range(random.randint(1, 2)):
        at = random.randrange(len(text) + 1)
        end = min(len(text), at + random.randint(1, 3))
        text = random.choice(
            (
                text[:at] + text[end:],
                text[:at] + noise(random) + text[at:],
                text[:at] + text[at:end] * random.randint(2, 40) + text[end:],
                text[:at] + random.choice(NUMBERS) + text[end:],
                text.swapcase(),
                text[::-1],
                f" {text}\n",
                text + text,
            )
        )
    return text


def text(random: Random, good: Sequence[str] = ()) -> str:
    """A text for a field that expects one of `good`: a valid one, a mutation, a number, or noise."""
    dice = random.random()
    if dice < 0.3 and good:
        return random.choice(good)
    if dice < 0.55 and good:
        return mutated(random, random.choice(good))
    if dice < 0.7:
        return random.choice(NUMBERS)
    if dice < 0.8:
        return random.choice(WORDS)
    if dice < 0.9:
        return " ".join([random.choice(OPERATORS), *(random.choice(NUMBERS) for _ in range(random.randrange(3)))])
    return huge(random) if dice < 0.93 else noise(random)


# --- values ------------------------------------------------------------------------------------------


def deep(random: Random, inner: Any = None) -> Any:
    """`inner` inside 10 to 3,000 nested lists and mappings."""
    for _ in range(random.choice((10, 50, 70, 300, 900, 3000))):
        inner = [inner] if random.random() < 0.5 else {"a": inner}
    return inner


def value(random: Random, depth: int = 3) -> Any:
    """Any JSON value, with at most `depth` levels, except for rare deeply nested ones."""
    dice = random.random()
    if dice < 0.35:
        return text(random)
    if dice < 0.6:
        return random.choice(
            (
                0,
                1,
                2,
                -1,
                3.5,
                1e300,
                float("nan"),
                float("inf"),
                10**15,
                10**16,
                10**400,
                -(2**63),
                True,
                False,
                None,
            )
        )
    if dice < 0.61:
        return deep(random)
    if dice < 0.62:
        return 10**4299 if random.random() < 0.5 else list(range(random.choice((1000, 20_000))))
    if not depth or dice < 0.7:
        return random.choice(([], {}, "", None))
    if dice < 0.85:
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    return {noise(random): value(random, depth - 1) for _ in range(random.randrange(4))}


def extra_specs(random: Random) -> dict[str, str]:
    """Extra specs of a flavor; one key in ten is mutated."""
    found = {}
    for _ in range(random.randrange(5)):
        key = random.choice(list(EXTRA_SPECS))
        found[mutated(random, key) if random.random() < 0.1 else key] = text(random, EXTRA_SPECS[key])
    return found


def image_properties(random: Random) -> dict[str, Any]:
    """Properties of an image, as the image service sends them."""
    names = [
        *CONVERTERS,
        *LEGACY_NAMES,
        *(f"{name}.0" for name in CONVERTERS_PER_NODE),
        "vmware_adaptertype",
        "trait:X",
    ]
    found: dict[str, Any] = {}
    for _ in range(random.randrange(5)):
        name = random.choice(names)
        good = GOOD_PROPERTIES.get(name.removesuffix(".0"), WORDS)
        dice = random.random()
        found[name] = random.choice(good) if dice < 0.6 else text(random, WORDS) if dice < 0.8 else value(random)
    return found


def written(data: Any) -> str:
    """The data as JSON text; an unparsable text where it is nested too deeply to be written."""
    try:
        return json.dumps(data)
    except RecursionError:
        return "[" * 3000


def query(random: Random) -> str:
    """A value of the hint `query`: mostly valid JSON, mostly a well-formed query."""
    dice = random.random()
    if dice < 0.7:
        return written(call(random, 4))
    if dice < 0.8:
        return mutated(random, written(call(random, 2)))
    if dice < 0.85:
        levels = random.choice((10, 63, 64, 65, 200, 990, 5000))
        return '["and", ' * levels + "true" + "]" * levels
    if dice < 0.87:
        levels = random.choice((100, 400, 900))
        return '["=", ' + ", ".join(['{"a": ' * levels + "1" + "}" * levels] * 2) + "]"
    if dice < 0.89:
        return '["in", ' + ", ".join(["1"] * random.choice((100, 20_000, 40_000))) + "]"
    return written(value(random)) if dice < 0.95 and random.random() < 0.9 else text(random)


def call(random: Random, depth: int) -> Any:
    """A query expression: an operator and its arguments, with at most `depth` levels."""
    if not depth or random.random() < 0.3:
        leaves = (
            lambda: random.choice(QUERY_NAMES),
            lambda: value(random, 1),
            lambda: random.randrange(10_000),
        )
        return random.choice(leaves)()
    operator = random.choice(("and", "or", "not", "=", "<", ">", "<=", ">=", "in", "in", "!=", value(random, 0)))
    return [operator, *(call(random, depth - 1) for _ in range(random.randrange(4)))]


def hints(random: Random) -> dict[str, Any]:
    """Scheduler hints, each with no text, one or several."""
    found: dict[str, Any] = {}
    for _ in range(random.randrange(3)):
        name = random.choice(list(HINTS))
        texts = [text(random, HINTS[name]) for _ in range(random.choice((0, 1, 1, 2)))]
        found[name] = texts[0] if len(texts) == 1 and random.random() < 0.5 else texts
    if random.random() < 0.5:
        found["query"] = query(random)
    return found


def request(random: Random) -> Any:
    """A request as JSON data: the valid one, with fields removed, mutated or replaced."""
    if random.random() < 0.02:
        return value(random)
    found = copy.deepcopy(REQUEST)
    for name in list(found):
        if name != "flavor" and random.random() < 0.4:
            del found[name]
    if "instance_group" in found:
        found["instance_group"]["policy"] = random.choice(("affinity", "anti-affinity", "legacy", None))
    if random.random() < 0.5:
        found["flavor"]["extra_specs"] = extra_specs(random)
        found["image"] = {"id": "image1", "disk_format": "raw", "properties": image_properties(random)}
        found["scheduler_hints"] = hints(random)
        return found
    for _ in range(random.randint(1, 3)):
        change(random, *somewhere(random, found))
    return found


def change(random: Random, place: Any, key: Any) -> None:
    """Remove, add, mutate or replace the entry `key` of a mapping or list."""
    dice = random.random()
    if dice < 0.15:
        del place[key]
    elif dice < 0.3 and isinstance(place, dict):
        place[random.choice((noise(random), mutated(random, str(key))))] = value(random)
    elif dice < 0.5 and isinstance(place[key], str):
        place[key] = mutated(random, place[key])
    elif dice < 0.7 and isinstance(place[key], int):
        place[key] = random.choice((0, 1, 2, 3, 8, 64, 10**6, 10**15))
    else:
        place[key] = value(random)


def somewhere(random: Random, root: dict[str, Any]) -> tuple[Any, Any]:
    """A random mapping or list inside `root`, and one of its keys."""
    place: Any = None
    inside: Any = root or {"": None}
    while isinstance(inside, (dict, list)) and inside and (place is None or random.random() < 0.6):
        place = inside
        key = random.choice(list(inside)) if isinstance(inside, dict) else random.randrange(len(inside))
        inside = place[key]
    return place, key


def pci_aliases(random: Random) -> list[str]:
    """Lines of the option [pci] alias."""
    lines = []
    for _ in range(random.randint(1, 3)):
        alias: dict[str, Any] = {name: each for name, each in ALIAS.items() if random.random() < 0.95}
        if random.random() < 0.2:
            alias[random.choice(list(ALIAS))] = value(random)
        line = written(alias)
        lines.append(mutated(random, line) if random.random() < 0.1 else line)
    return lines


MAKERS: Mapping[str, Callable[[Random], Any]] = {
    "extra_specs": extra_specs,
    "image_properties": image_properties,
    "hints": hints,
    "pci_aliases": pci_aliases,
    "request": request,
}
"""Kind of input -> its generator."""
