# SPDX-License-Identifier: Apache-2.0
"""The sample file."""

from dataclasses import dataclass

from roost.options.declare import declared, option
from roost.options.report import sample
from roost.scheduler.all_options import option_owners, read_options


@dataclass(frozen=True)
class Own:
    """Options of several kinds."""

    count: int = option(3, min=1, max=9, old=("old_count",), reloads=False, help="how many there may be")
    address: str | None = option(None, help="where it is")
    word: str = option("a", choices=("a", "b"), group="DEFAULT", help="which one; costs $5")
    paths: tuple[str, ...] = option(("x", "y"), repeats=True, help="dotted paths")


def test_the_sample_says_all_about_each_option():
    text = sample(declared(Own)).partition("\n\n")[2]
    assert (
        text
        == """
[DEFAULT]

# Which one; costs $5.
# One of a, b.
#word = a


[filter_scheduler]

# Where it is.
# Text; not set by default.
#address =

# How many there may be.
# Whole number, at least 1, at most 9.
# Old names: [DEFAULT] old_count.
# A new value needs a restart.
#count = 3

# Dotted paths.
# List, a line each.
#paths = x
#paths = y
"""
    )


def test_no_line_is_too_long_to_read_but_those_that_hold_a_value():
    options = [each for owner in option_owners() for each in declared(owner)]
    lines = [line for line in sample(options).splitlines() if line.startswith("# ")]
    assert max(map(len, lines)) <= 88


def test_the_whole_sample_without_its_hashes_sets_every_default(tmp_path):
    options = {(each.group, each.name): each for owner in option_owners() for each in declared(owner)}
    lines = sample(options.values()).splitlines()
    uncommented = [line.removeprefix("#") for line in lines if not line.startswith("# ") and not line.endswith(" =")]
    file = tmp_path / "roost.conf"
    file.write_text("\n".join(uncommented) + "\n")
    settings = read_options([file])
    for key, each in options.items():
        assert settings.value(*key) == each.default
