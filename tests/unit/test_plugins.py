# SPDX-License-Identifier: Apache-2.0
"""How filters and weighers are found: spec/filters.md 2.6, spec/weighers.md 1."""

import importlib
import sys
import textwrap

import pytest

from roost.errors import PluginNotFound
from roost.filters.compute import ComputeFilter
from roost.filters.ram import RamFilter
from roost.plugins.registry import FILTERS, WEIGHERS, find_filters, find_weighers
from roost.weighers.cpu import CPUWeigher
from roost.weighers.ram import RAMWeigher

ALL = "roost.filters.all_filters"


@pytest.fixture
def module(tmp_path):
    """Writes a module, gives its name, and forgets it afterwards. The place is not on Python's path."""
    names = []

    def write(source, name=None):
        name = name or f"people_{abs(hash(tmp_path))}_{len(names)}"
        names.append(name)
        header = "from roost.filters import Filter, HostFilter\nfrom roost.weighers import HostWeigher, Weigher\n"
        (tmp_path / f"{name}.py").write_text(header + textwrap.dedent(source))
        importlib.invalidate_caches()
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


def names(classes):
    return [each.__name__ for each in classes]


# --- filters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [ALL, "nova.scheduler.filters.all_filters", "nova.scheduler.filters.standard_filters"]
)
def test_all_built_in_filters_by_either_name(path):
    assert find_filters([path], ["ComputeFilter", "RamFilter"]) == [ComputeFilter, RamFilter]


@pytest.mark.parametrize("plugin", FILTERS, ids=lambda plugin: plugin.__name__)
def test_every_built_in_filter_is_found_by_its_name(plugin):
    assert find_filters([ALL], [plugin.__name__]) == [plugin]


def test_novas_path_of_a_built_in_filter_stands_for_ours():
    path = "nova.scheduler.filters.compute_filter.ComputeFilter"
    assert find_filters([path], ["ComputeFilter"]) == [ComputeFilter]


def test_only_available_filters_can_be_enabled():
    with pytest.raises(PluginNotFound, match="unknown filter RamFilter"):
        find_filters(["nova.scheduler.filters.compute_filter.ComputeFilter"], ["RamFilter"])


def test_filters_come_in_the_order_they_are_enabled_in():
    assert find_filters([ALL], ["RamFilter", "ComputeFilter"]) == [RamFilter, ComputeFilter]


def test_a_repeated_name_runs_twice():
    assert find_filters([ALL], ["RamFilter", "RamFilter"]) == [RamFilter, RamFilter]


def test_an_empty_list_is_legal():
    assert find_filters([ALL], []) == []


def test_a_class_by_its_path(module, tmp_path):
    name = module("class Mine(HostFilter): pass")
    (found,) = find_filters([ALL, f"{name}.Mine"], ["Mine"], [tmp_path])
    assert (found.__module__, found.__name__) == (name, "Mine")


def test_classes_by_a_function_that_returns_them(module, tmp_path):
    name = module(
        """
        class One(HostFilter): pass
        class Two(HostFilter): pass
        def mine(): return [One, Two]
        """
    )
    assert names(find_filters([f"{name}.mine"], ["Two", "One"], [tmp_path])) == ["Two", "One"]


def test_a_filter_on_columns_is_a_filter_too(module, tmp_path):
    name = module("class Columns(Filter): pass")
    assert names(find_filters([f"{name}.Columns"], ["Columns"], [tmp_path])) == ["Columns"]


def test_of_two_of_the_same_name_the_later_wins(module, tmp_path):
    one, other = module("class Mine(HostFilter): pass"), module("class Mine(HostFilter): pass")
    (found,) = find_filters([f"{one}.Mine", f"{other}.Mine"], ["Mine"], [tmp_path])
    assert found.__module__ == other


def test_ones_own_filter_may_take_the_place_of_a_built_in(module, tmp_path):
    name = module("class RamFilter(HostFilter): pass")
    (found,) = find_filters([ALL, f"{name}.RamFilter"], ["RamFilter"], [tmp_path])
    assert found.__module__ == name


def test_a_path_may_be_enabled_directly(module, tmp_path):
    name = module("class Mine(HostFilter): pass")
    assert names(find_filters([ALL], ["ComputeFilter", f"{name}.Mine"], [tmp_path])) == ["ComputeFilter", "Mine"]


def test_all_unknown_names_are_listed_in_one_error():
    with pytest.raises(PluginNotFound, match=r"^enabled_filters: unknown filter NoFilter, CoreFiltre, Other \("):
        find_filters([ALL], ["NoFilter", "ComputeFilter", "CoreFiltre", "Other"])


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(PluginNotFound, match=r"\(did you mean ComputeFilter\?\)"):
        find_filters([ALL], ["CompueFilter"])


def test_filter_names_are_case_sensitive():
    with pytest.raises(PluginNotFound, match="unknown filter computefilter"):
        find_filters([ALL], ["computefilter"])


@pytest.mark.parametrize(
    ("source", "attribute", "message"),
    [
        pytest.param("class Mine: pass", "Mine", "is not a filter class", id="another class"),
        pytest.param("class Mine(HostWeigher): pass", "Mine", "is not a filter class", id="a weigher"),
        pytest.param("class _Mine(HostFilter): pass", "_Mine", "is not a filter class", id="underscore"),
        pytest.param("mine = 5", "mine", "is not a filter class but 5", id="a number"),
        pytest.param("class C(HostFilter): pass\nmine = C()", "mine", "is not a filter class", id="an object"),
        pytest.param("def mine(): return [int]", "mine", "is not a filter class", id="a function of other classes"),
        pytest.param("def mine(): return 5", "mine", "is not a filter class but 5", id="a function of a number"),
        pytest.param("def mine(): return None", "mine", "is not a filter class but None", id="a function of nothing"),
        pytest.param(
            "def mine(arg): return []", "mine", r"mine\(\) failed: TypeError", id="a function with arguments"
        ),
        pytest.param("def mine(): raise KeyError('x')", "mine", r"mine\(\) failed: KeyError: 'x'", id="it raises"),
        pytest.param("", "Mine", "has no Mine", id="nothing of that name"),
        pytest.param("import no_such_module", "Mine", "there is no module no_such_module", id="import fails"),
        pytest.param("1 / 0", "Mine", "importing failed: ZeroDivisionError", id="import raises"),
        pytest.param("def f(:", "Mine", "importing failed: SyntaxError", id="syntax error"),
    ],
)
def test_what_is_no_filter_is_an_error_that_names_the_path(module, tmp_path, source, attribute, message):
    path = f"{module(source)}.{attribute}"
    with pytest.raises(PluginNotFound, match=f"^{path}.*{message}|^{path.rpartition('.')[0]}.*{message}"):
        find_filters([ALL, path], ["ComputeFilter"], [tmp_path])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_package.filters.Mine", "no_such_package.filters.Mine: there is no module no_such_package"),
        ("nova.scheduler.filters.no_filter.NoFilter", "there is no module nova"),
        ("Mine", "Mine is no dotted path"),
        ("roost.filters.compute.ComputFilter", r"has no ComputFilter \(did you mean ComputeFilter\?\)"),
        ("", "is no dotted path"),
    ],
)
def test_a_path_that_leads_nowhere_is_an_error(path, message):
    with pytest.raises(PluginNotFound, match=message):
        find_filters([path], [])


def test_a_function_that_returns_nothing_makes_nothing_available(module, tmp_path):
    assert find_filters([ALL, f"{module('def mine(): return []')}.mine"], ["RamFilter"], [tmp_path]) == [RamFilter]


def test_a_path_of_several_classes_cannot_be_enabled_directly(module, tmp_path):
    name = module("class A(HostFilter): pass\nclass B(HostFilter): pass\ndef mine(): return [A, B]")
    with pytest.raises(PluginNotFound, match="stands for 2 classes"):
        find_filters([ALL], [f"{name}.mine"], [tmp_path])


def test_pythons_own_path_is_left_as_it_was(module, tmp_path):
    before = list(sys.path)
    find_filters([f"{module('class Mine(HostFilter): pass')}.Mine"], ["Mine"], [tmp_path])
    with pytest.raises(PluginNotFound):
        find_filters([f"{module('1 / 0')}.Mine"], ["Mine"], [tmp_path])
    assert sys.path == before


def test_a_module_in_a_place_cannot_take_the_place_of_an_installed_one(module, tmp_path):
    module("class Mine(HostFilter): pass", name="textwrap")
    with pytest.raises(PluginNotFound, match="textwrap has no Mine"):
        find_filters(["textwrap.Mine"], ["Mine"], [tmp_path])


# --- weighers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["roost.weighers.all_weighers", "nova.scheduler.weights.all_weighers"])
def test_all_built_in_weighers_by_either_name(path):
    assert find_weighers([path]) == list(WEIGHERS)


@pytest.mark.parametrize(
    "path", ["nova.scheduler.weights.ram.RAMWeigher", "roost.weighers.ram.RAMWeigher", "RAMWeigher"]
)
def test_a_built_in_weigher_by_either_path_or_its_name(path):
    assert find_weighers([path]) == [RAMWeigher]


def test_weighers_come_in_their_order():
    assert find_weighers(["CPUWeigher", "RAMWeigher"]) == [CPUWeigher, RAMWeigher]


def test_a_weigher_counts_once_however_often_it_is_named():
    paths = ["RAMWeigher", "nova.scheduler.weights.ram.RAMWeigher", "nova.scheduler.weights.all_weighers"]
    assert sorted(names(find_weighers(paths))) == sorted(names(WEIGHERS))


def test_without_paths_there_are_no_weighers():
    assert find_weighers([]) == []


def test_ones_own_weigher_by_its_path(module, tmp_path):
    name = module("class Mine(HostWeigher): pass\nclass Columns(Weigher): pass")
    assert names(find_weighers([f"{name}.Mine", f"{name}.Columns"], [tmp_path])) == ["Mine", "Columns"]


def test_ones_own_weighers_by_a_function(module, tmp_path):
    name = module("class A(HostWeigher): pass\nclass B(HostWeigher): pass\ndef mine(): return [A, B]")
    assert names(find_weighers([f"{name}.mine"], [tmp_path])) == ["A", "B"]


@pytest.mark.parametrize(
    ("source", "attribute"),
    [
        ("class Mine: pass", "Mine"),
        ("class Mine(HostFilter): pass", "Mine"),
        ("class _Mine(HostWeigher): pass", "_Mine"),
        ("mine = 5", "mine"),
    ],
)
def test_what_is_no_weigher_is_an_error(module, tmp_path, source, attribute):
    with pytest.raises(PluginNotFound, match="is not a weigher class"):
        find_weighers([f"{module(source)}.{attribute}"], [tmp_path])


def test_an_unknown_weigher_is_told_the_nearest():
    with pytest.raises(PluginNotFound, match=r"unknown weigher RamWeigher \(did you mean RAMWeigher\?\)"):
        find_weighers(["RamWeigher"])


def test_a_weigher_that_cannot_be_imported_is_an_error():
    with pytest.raises(PluginNotFound, match="there is no module no_such_package"):
        find_weighers(["no_such_package.Mine"])


# --- entry points ------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path, module, monkeypatch):
    """Installs a distribution with these entry points, for one test."""

    def install(source, entry_points):
        name = module(source)
        info = tmp_path / "people_plugins-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: people-plugins\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(textwrap.dedent(entry_points).replace("MODULE", name))
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_an_installed_filter_is_found_by_the_name_of_its_entry_point(installed):
    installed("class Mine(HostFilter): pass", "[roost.filters]\nMineFilter = MODULE:Mine\n")
    assert names(find_filters([ALL], ["ComputeFilter", "MineFilter"])) == ["ComputeFilter", "Mine"]


def test_an_installed_weigher_is_found_by_the_name_of_its_entry_point(installed):
    installed("class Mine(HostWeigher): pass", "[roost.weighers]\nMineWeigher = MODULE:Mine\n")
    assert names(find_weighers(["MineWeigher", "RAMWeigher"])) == ["Mine", "RAMWeigher"]


def test_an_installed_plugin_that_is_not_enabled_does_nothing(installed):
    installed("class Mine(HostWeigher): pass", "[roost.weighers]\nMineWeigher = MODULE:Mine\n")
    assert find_weighers(["RAMWeigher"]) == [RAMWeigher]


def test_an_entry_point_that_is_no_filter_is_an_error(installed):
    installed("mine = 5", "[roost.filters]\nMineFilter = MODULE:mine\n")
    with pytest.raises(PluginNotFound, match=r"entry point MineFilter .* is no filter"):
        find_filters([ALL], ["MineFilter"])


def test_an_entry_point_that_cannot_be_loaded_is_an_error_that_names_it(installed):
    installed("", "[roost.filters]\nMineFilter = MODULE:Nothing\n")
    with pytest.raises(PluginNotFound, match="entry point MineFilter"):
        find_filters([ALL], ["MineFilter"])


@pytest.mark.parametrize("value", ["MODULE:Nothing", "no_such_module:Mine", "MODULE:mine"])
def test_a_broken_plugin_that_nobody_enabled_does_no_harm(installed, value):
    installed("mine = 5", f"[roost.filters]\nMineFilter = {value}\n[roost.weighers]\nMineWeigher = {value}\n")
    assert find_filters([ALL], ["ComputeFilter"]) == [ComputeFilter]
    assert find_weighers(["RAMWeigher"]) == [RAMWeigher]
