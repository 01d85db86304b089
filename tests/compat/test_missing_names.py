# SPDX-License-Identifier: Apache-2.0
"""What Roost does not answer for is an error that names plugin, what is missing, and what to do."""

import importlib
import sys
import textwrap

import pytest
from tests.compat.conftest import DOCUMENT, ask

from roost import PluginFailed
from roost.errors import OptionError, PluginNotFound
from roost.plugins.registry import find_filters, find_weighers

FILTER = """
from nova.scheduler import filters
class Mine(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        {body}
"""


@pytest.fixture
def load(tmp_path):
    """Writes a module and loads its class Mine; the module is forgotten afterwards."""
    names = []

    def load(source, find=find_filters):
        name = f"wanting_{abs(hash(tmp_path))}_{len(names)}"
        names.append(name)
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        path = f"{name}.Mine"
        return find([path], ["Mine"], [tmp_path]) if find is find_filters else find([path], [tmp_path])

    yield load
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("from nova.virt.libvirt import driver", "imports nova.virt, which Roost does not have"),
        ("import nova.compute.api", "imports nova.compute, which Roost does not have"),
        ("import nova.volume.cinder as brick", "imports nova.volume, which Roost does not have"),
        ("from nova.scheduler.filters import no_filter", "imports no_filter from nova.scheduler.filters,"),
        ("from nova.objects import Migration", "imports Migration from nova.objects, which Roost does not have"),
        ("from nova import objects\nobjects.Migration", "module 'nova.objects' has no attribute 'Migration'"),
        ("from nova.scheduler.filters.ram_filter import BaseRamFilter", "imports BaseRamFilter from nova.scheduler"),
    ],
)
def test_a_name_that_is_not_there_is_told_when_the_plugin_is_loaded(load, source, words):
    with pytest.raises(PluginNotFound, match=r"^wanting_\w+\.Mine: .*" + words.replace(".", r"\.")) as caught:
        load(source)
    assert "plugins-of-nova" in caught.value.hint


@pytest.mark.parametrize(
    "source",
    [
        "print 'hello'",
        "try:\n    pass\nexcept ValueError, e:\n    pass",
        "raise ValueError, 'no'",
        "mode = 0755",
        "if 1 <> 2: pass",
        "def f():\n        x = 1\n\ty = 2\n",
        "import urllib2",
        "import ConfigParser",
        "texts = (str, unicode)",
        "exec 'x = 1'",
        "size = 10L",
    ],
)
def test_python_2_is_told_plainly(load, source):
    with pytest.raises(PluginNotFound, match=r"^wanting_\w+\.Mine is written for Python 2: .*") as caught:
        load(source, find_weighers)
    assert "2to3" in caught.value.hint


def test_a_name_that_is_missing_when_the_filter_runs_is_told_with_the_host(scheduler_with, tmp_path, monkeypatch):
    (tmp_path / "late.py").write_text(FILTER.format(body="from nova.virt import hardware").replace("Mine", "Late"))
    scheduler = scheduler_with("late.Late")
    with pytest.raises(PluginFailed, match=r"^Late failed on host a1: ModuleNotFoundError: .*'nova\.virt'"):
        ask(scheduler)


def test_an_attribute_that_is_missing_when_the_filter_runs_is_told_with_the_host(scheduler_with, tmp_path):
    body = "from nova import objects; return objects.Migration"
    (tmp_path / "later.py").write_text(FILTER.format(body=body).replace("Mine", "Later"))
    with pytest.raises(PluginFailed, match=r"^Later failed on host a1: AttributeError: .*nova\.objects.*Migration"):
        ask(scheduler_with("later.Later"))


def test_an_option_that_nobody_registered_is_told(scheduler_with, tmp_path):
    body = "import nova.conf; return nova.conf.CONF.vmware.host_ip"
    (tmp_path / "unread.py").write_text(FILTER.format(body=body).replace("Mine", "Unread"))
    with pytest.raises(PluginFailed, match=r"^Unread failed on host a1: NoSuchOptError: .*vmware"):
        ask(scheduler_with("unread.Unread"))


def test_a_file_that_lay_in_novas_tree_is_told_where_to_put_it():
    with pytest.raises(PluginNotFound, match=r"beside the config file, as rack_filter.py, and is named rack_filter"):
        find_filters(["nova.scheduler.filters.rack_filter.RackFilter"], ["RackFilter"])


def test_a_plugin_may_ask_whether_something_of_nova_is_there(load):
    source = """
    try:
        from nova.pci import stats
    except ImportError:
        stats = None
    from nova.scheduler import filters
    class Mine(filters.BaseHostFilter):
        pass
    """
    assert [each.__name__ for each in load(source)] == ["Mine"]


@pytest.mark.parametrize("call", ["iteritems()", "iterkeys()", "has_key('x')"])
def test_python_2_that_shows_only_when_it_runs_is_told_plainly_too(load, scheduler_with, call, tmp_path, monkeypatch):
    (tmp_path / "late_two.py").write_text(FILTER.format(body=f"return {{}}.{call}"))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginFailed, match="Mine failed on host a1: AttributeError") as caught:
        ask(scheduler_with("late_two.Mine"))
    assert caught.value.hint.startswith("it is written for Python 2: ")
    sys.modules.pop("late_two")


@pytest.mark.parametrize(
    "line",
    [
        "CONF.import_opt('no_such_option', 'nova.compute.manager', group='compute')",
        "CONF.compute.no_such_option",
    ],
)
def test_an_option_that_is_not_there_is_named_with_its_section(load, line):
    with pytest.raises(PluginNotFound, match=r"Mine: it asks for the option \[compute\] no_such_option, which Roost"):
        load(f"from nova.conf import CONF\n{line}")


def test_a_function_that_fails_while_it_names_filters_is_told(load):
    with pytest.raises(PluginNotFound, match=r"Mine\(\) failed: ZeroDivisionError"):
        load("def Mine():\n    yield 1 / 0")


def test_a_function_that_gives_a_text_is_told(load):
    with pytest.raises(PluginNotFound, match="is not a filter class but 'some text'"):
        load("def Mine():\n    return 'some text'")


def test_an_option_of_novas_with_a_wrong_value_is_named(scheduler_with):
    document = DOCUMENT | {"options": {"DEFAULT": {"max_concurrent_builds": "auto"}}}
    with pytest.raises(OptionError, match=r"\[DEFAULT\] max_concurrent_builds: "):
        scheduler_with("icehouse_habits.OneByOneFilter", document=document)


def test_the_advice_on_a_file_from_novas_tree_names_the_file():
    with pytest.raises(PluginNotFound) as caught:
        find_weighers(["nova.acme.scheduler.weights.spare_cpus.SpareCpusWeigher"])
    assert "as spare_cpus.py, and is named spare_cpus.SpareCpusWeigher" in caught.value.hint


@pytest.fixture
def without_nova():
    """No nova has been imported yet, and none will have been."""

    def take_out():
        return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "nova"}

    before = take_out()
    yield
    take_out()
    sys.modules.update(before)


def test_a_folder_that_takes_the_place_of_nova_is_named(tmp_path, without_nova):
    folder = tmp_path / "nova" / "scheduler" / "filters"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent, folder.parent.parent):
        (each / "__init__.py").touch()
    (folder / "own.py").write_text("import nova.objects")
    with pytest.raises(PluginNotFound, match=r"imports nova\.objects, which is not in") as caught:
        find_filters(["nova.scheduler.filters.own.Mine"], ["Mine"], [tmp_path])
    assert str(tmp_path / "nova") in str(caught.value)
    assert "move files of your own out" in caught.value.hint


def test_weights_that_were_changed_in_place_are_asked_for(load, scheduler_with, tmp_path, monkeypatch):
    (tmp_path / "in_place.py").write_text(
        "from nova.scheduler import weights\n"
        "class Mine(weights.BaseHostWeigher):\n"
        "    def weigh_objects(self, weighed_obj_list, weight_properties):\n"
        "        weighed_obj_list[0].weight = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginFailed, match="Mine failed: ValueError: weigh_objects gave None instead of 4 weights"):
        ask(scheduler_with(weighers=["in_place.Mine"]))
    sys.modules.pop("in_place")
