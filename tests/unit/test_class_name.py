# SPDX-License-Identifier: Apache-2.0
"""The name of filters and weighers."""

import pytest

from roost.filters.base import Filter, HostFilter
from roost.filters.ram import RamFilter
from roost.weighers.base import HostWeigher, Weigher
from roost.weighers.ram import RAMWeigher

BASES = [Filter, HostFilter, RamFilter, Weigher, HostWeigher, RAMWeigher]


def names_of(kind):
    """The name on the class and on an instance."""
    return kind.name, kind().name


@pytest.mark.parametrize("base", BASES)
def test_the_name_is_that_of_the_class(base):
    class Plugin(base):
        pass

    assert names_of(base) == (base.__name__, base.__name__)
    assert names_of(Plugin) == ("Plugin", "Plugin")


@pytest.mark.parametrize("base", BASES)
def test_a_name_that_a_base_class_sets_is_inherited(base):
    class Common(base):
        name = "x"

    class Plugin(Common):
        pass

    class Grandchild(Plugin):
        pass

    assert names_of(Plugin) == names_of(Grandchild) == ("x", "x")


@pytest.mark.parametrize("base", BASES)
def test_a_class_may_set_another_name_than_its_base_class(base):
    class Common(base):
        name = "x"

    class Plugin(Common):
        name = "y"

    assert names_of(Plugin) == ("y", "y")


@pytest.mark.parametrize("base", BASES)
def test_a_property_of_a_base_class_gives_the_name(base):
    class Common(base):
        @property
        def name(self):
            return f"my {type(self).__name__}"

    class Plugin(Common):
        pass

    assert Plugin().name == "my Plugin"


@pytest.mark.parametrize("base", BASES)
def test_a_mixin_gives_the_name_if_it_comes_first(base):
    class Mixin:
        name = "x"

    class First(Mixin, base):
        pass

    class Last(base, Mixin):
        pass

    assert (names_of(First), names_of(Last)) == (("x", "x"), ("Last", "Last"))


@pytest.mark.parametrize("base", BASES)
def test_a_second_base_class_gives_the_name_that_the_first_does_not_set(base):
    class Unnamed(base):
        pass

    class Named(base):
        name = "x"

    class Plugin(Unnamed, Named):
        pass

    assert names_of(Plugin) == ("x", "x")
