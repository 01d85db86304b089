# SPDX-License-Identifier: Apache-2.0
"""People's own filters and weighers, through the real command."""

import sys
from pathlib import Path

import pytest

FLEET = """\
hosts:
  - {host: roomy, vcpus_total: 8, total_usable_ram_mb: 8192}
  - {host: tight, vcpus_total: 8, total_usable_ram_mb: 2048}
"""
OLD_SPELLING = """\
from roost import filters
class myFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        return host_state.free_ram_mb > filter_properties.get('instance_type')['memory_mb']
"""
NEW_SPELLING = """\
from roost import filters
class myFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return host_state.free_ram_mb > spec_obj.flavor.memory_mb
"""
NEW_NAMES = """\
[filter_scheduler]
available_filters = roost.filters.all_filters
available_filters = my_filter.myFilter
enabled_filters = ComputeFilter,myFilter
"""
OLD_NAMES = """\
[DEFAULT]
scheduler_available_filters = nova.scheduler.filters.all_filters
scheduler_available_filters = my_filter.myFilter
scheduler_default_filters = ComputeFilter,myFilter
"""
SCRIPT = Path(sys.executable).with_name("roost")


@pytest.fixture
def lay_out(tmp_path):
    """A fleet, a config file in one folder and the plugin in another; the folder to run in."""

    def write(plugin, config, plugin_beside_config):
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir()
        there.mkdir()
        (here / "fleet.yaml").write_text(FLEET)
        (there / "nova.conf").write_text(config)
        ((there if plugin_beside_config else here) / "my_filter.py").write_text(plugin)
        return here

    return write


@pytest.mark.parametrize("plugin", [OLD_SPELLING, NEW_SPELLING], ids=["filter_properties", "spec_obj"])
@pytest.mark.parametrize("config", [NEW_NAMES, OLD_NAMES], ids=["new names", "old names"])
@pytest.mark.parametrize("beside", [True, False], ids=["beside the config file", "in the current directory"])
def test_the_filter_of_the_readme_decides(process, lay_out, plugin, config, beside):
    here = lay_out(plugin, config, beside)
    request = ("--config-file", "../there/nova.conf", "--vcpus", 1, "--ram", 2048)
    done = process("place", "--fleet", "fleet.yaml", *request, "-f", "json", program=(SCRIPT,), cwd=here)
    assert done.code == 0, done.err
    assert done.record["decision"]["steps"][-1] == {"stage": "filter", "name": "myFilter", "before": 2, "after": 1}
    assert done.record["selections"][0]["host"] == "roomy"


def test_without_the_filter_both_hosts_fit(process, lay_out):
    here = lay_out(OLD_SPELLING, NEW_NAMES, True)
    done = process("place", "--fleet", "fleet.yaml", "--vcpus", 1, "--ram", 2048, "-f", "json", cwd=here)
    assert done.record["decision"]["steps"][-1]["after"] == 2


# --- plugins that misbehave --------------------------------------------------------------------------

MODULE = """\
from roost import filters, weighers

class Raises(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        if host_state.host == "tight":
            raise KeyError("no such\\nthing")
        return True

class Prints(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        print("looking at", host_state.host)
        return True

class Limits(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        host_state.limits.update(one=float("nan"), two=object(), three=3)
        return True

class Forgot(filters.BaseHostFilter):
    pass

class Nan(weighers.BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        return float("nan")

class Text(weighers.BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        return "heavy"

class Multiplier(weighers.BaseHostWeigher):
    def weight_multiplier(self, host_state):
        raise ValueError("which one?")

    def _weigh_object(self, host_state, weight_properties):
        return 1.0
"""


@pytest.fixture
def place_with(place_on, tmp_path, monkeypatch):
    """`roost place` with one of the plugins above as the only filter or weigher."""
    (tmp_path / "odd_plugins.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "odd_plugins", raising=False)

    def run(kind, name, *arguments):
        option = {"filter": "enabled_filters", "weigher": "weight_classes"}[kind]
        (tmp_path / "c.conf").write_text(f"[filter_scheduler]\n{option} = odd_plugins.{name}\n")
        return place_on(FLEET, "--vcpus", 1, "--ram", 1, "--config-file", "c.conf", *arguments)

    return run


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("filter", "Raises", "roost: Raises failed on host tight: KeyError: 'no such\\nthing'\n"),
        ("filter", "Forgot", "roost: Forgot failed on host roomy: NotImplementedError"),
        (
            "weigher",
            "Text",
            "roost: Text failed on host roomy: ValueError: could not convert string to float: 'heavy'",
        ),
        ("weigher", "Multiplier", "roost: Multiplier failed on host roomy: ValueError: which one?"),
    ],
)
@pytest.mark.parametrize("shape", ["table", "json"])
def test_a_plugin_that_raises_is_named_with_the_host(place_with, kind, name, message, shape):
    place_with(kind, name, "-f", shape).assert_refused(message, code=3)


def test_debug_shows_where_a_plugin_raised(place_with):
    done = place_with("filter", "Raises", "--debug")
    assert done.code == 3
    assert "Traceback" in done.err
    assert "odd_plugins.py" in done.err
    assert done.err.splitlines()[-1].startswith("roost: Raises failed on host tight")


def test_what_a_plugin_prints_does_not_get_into_the_answer(place_with):
    done = place_with("filter", "Prints", "-f", "json")
    assert done.record["selections"]
    assert "looking at roomy\n" in done.err


def test_what_a_plugin_writes_into_limits_does_not_break_the_json(place_with):
    limits = place_with("filter", "Limits", "-f", "json").record["selections"][0]["limits"]
    assert limits["one"] is None
    assert limits["two"].startswith("<object object")
    assert limits["three"] == 3


@pytest.mark.parametrize("shape", ["json", "yaml", "csv", "value", "table"])
def test_a_weigher_that_gives_no_number_gives_null_in_json(place_with, shape):
    done = place_with("weigher", "Nan", "-f", shape)
    assert (done.code, done.err) == (0, "")
    if shape == "json":
        assert done.record["selections"][0]["scores"]["Nan"]["raw"] is None
