# SPDX-License-Identifier: Apache-2.0
"""Rules that hold for any value and any file."""

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roost.options.declare import declared, option
from roost.options.names import STRICT, UNUSED, correct_typo
from roost.options.read import read_settings
from roost.options.report import sample

FILES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@dataclass(frozen=True)
class Own:
    """One option of every kind."""

    count: int = option(1, help="a number")
    factor: float = option(1.5, help="a float")
    switch: bool = option(False, help="a truth")
    text: str = option("a", group="DEFAULT", old=("old_text",), help="a text")
    names: tuple[str, ...] = option((), help="a list")
    paths: tuple[str, ...] = option(("x",), group="scheduler", repeats=True, help="a line each")


WORD = st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters="_./:@%&*-"), min_size=1)
LINE = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
VALUES = st.builds(
    Own,
    count=st.integers(-(10**12), 10**12),
    factor=st.floats(allow_nan=False, allow_infinity=False),
    switch=st.booleans(),
    text=LINE,
    names=st.lists(LINE, max_size=4).map(tuple),
    paths=st.lists(LINE, min_size=1, max_size=4).map(tuple),
)
OURS = {each.group for each in declared(Own)} | STRICT | UNUSED.keys()
FOREIGN = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=20).filter(
    lambda name: not correct_typo(name, OURS)
)


def as_file(values):
    """The file that says this, written by hand as people do."""
    lines = [
        "[DEFAULT]",
        f"text = {values.text}",
        "[filter_scheduler]",
        f"count = {values.count}",
        f"factor = {values.factor!r}",
        f"switch = {values.switch}",
        f"names = {','.join(values.names)}",
        "[scheduler]",
        *(f"paths = {path}" for path in values.paths),
    ]
    return "\n".join(lines) + "\n"


def read(tmp_path, text):
    file = tmp_path / "nova.conf"
    file.write_text(text)
    return read_settings([Own], [file])


@FILES
@given(values=VALUES)
def test_any_value_comes_back_from_a_file(tmp_path, values):
    assert read(tmp_path, as_file(values)).fill(Own) == values


@FILES
@given(values=VALUES)
def test_any_value_comes_back_from_a_mapping(values):
    mapping = {}
    for each in declared(Own):
        value = getattr(values, each.field)
        mapping.setdefault(each.group, {})[each.name] = list(value) if isinstance(value, tuple) else value
    assert read_settings([Own], explicit=mapping).fill(Own) == values


@FILES
@given(sections=st.dictionaries(FOREIGN, st.dictionaries(FOREIGN, LINE, min_size=1, max_size=5), max_size=5))
def test_what_other_services_write_into_their_sections_never_matters(tmp_path, sections):
    foreign = "".join(
        f"[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for section, entries in sections.items()
    )
    found = read(tmp_path, f"{foreign}[filter_scheduler]\ncount = 7\n")
    assert found.fill(Own) == Own(count=7)
    (source,) = found.report.sources
    assert source.ignored == {section: len(entries) for section, entries in sections.items()}


@FILES
@given(values=VALUES)
def test_a_sample_of_any_defaults_gives_those_defaults(tmp_path, values):
    options = [
        each.__class__(**{**vars(each), "default": getattr(values, each.field)})
        for each in declared(Own)
        if getattr(values, each.field) != ()
    ]
    uncommented = [line.removeprefix("#") for line in sample(options).splitlines() if not line.startswith("# ")]
    found = read(tmp_path, "\n".join(uncommented) + "\n")
    for each in options:
        assert found.value(each.group, each.name) == each.default
