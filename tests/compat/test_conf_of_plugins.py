# SPDX-License-Identifier: Apache-2.0
"""nova's CONF: Roost's options by every name, plugins' own options from Roost's files, one context at a time."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from oslo_config import cfg
from tests.compat.conftest import PLUGINS, ask

from roost.plugins.context import PluginContext
from roost.plugins.nova_conf import PluginOptions, registered_options
from roost.scheduler.all_options import read_options
from roost.scheduler.build import build_pipeline

BURST = "newton_burst_filter.BurstFilter"
SMALL_GROUP = "plugin_options_test"


@pytest.fixture
def context():
    """Makes a context of these sources; the options of one context do not reach the next test."""

    def make(files=(), fleet=None, explicit=None, settings=None):
        return PluginContext(PluginOptions(settings or read_options(files), files, fleet or {}, explicit or {}))

    return make


def test_every_option_of_roost_is_there_by_its_new_and_old_names(context, tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text("[DEFAULT]\nscheduler_host_subset_size = 4\n[filter_scheduler]\nram_weight_multiplier = 2.5\n")
    with context([file]).activated():
        assert cfg.CONF.filter_scheduler.host_subset_size == cfg.CONF.scheduler_host_subset_size == 4
        assert cfg.CONF.filter_scheduler.ram_weight_multiplier == cfg.CONF.ram_weight_multiplier == 2.5
        assert cfg.CONF.scheduler.max_attempts == 3
        assert isinstance(cfg.CONF.filter_scheduler.enabled_filters, list)
        for group, name in read_options().options:
            assert name in (cfg.CONF if group == "DEFAULT" else cfg.CONF[group])


def test_options_of_the_caller_are_what_plugins_read(context):
    settings = read_options(explicit={"filter_scheduler": {"host_subset_size": 9}})
    with context(settings=settings).activated():
        assert cfg.CONF.filter_scheduler.host_subset_size == 9


@pytest.mark.parametrize("group", [None, "filter_scheduler", cfg.OptGroup("filter_scheduler")])
def test_an_option_that_roost_has_may_be_registered_again(context, group):
    with context().activated():
        option = cfg.FloatOpt("ram_weight_multiplier", default=99.0, help="Other words")
        assert cfg.CONF.register_opt(option, group=group) is False
        assert cfg.CONF.filter_scheduler.ram_weight_multiplier == 1.0


def test_a_plugins_own_options_come_from_the_files_whenever_they_are_registered(context, tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text(f"[{SMALL_GROUP}]\nnames = x, y\nsize = 7\n[DEFAULT]\nplugin_flag = yes\n")
    with context([file]).activated():
        options = [
            cfg.ListOpt("names", default=[]),
            cfg.IntOpt("size", default=1),
            cfg.IntOpt("other-size", default=3),
        ]
        cfg.CONF.register_opts(options, group=SMALL_GROUP)
        cfg.CONF.register_cli_opt(cfg.BoolOpt("plugin_flag", default=False))
        mine = cfg.CONF[SMALL_GROUP]
        assert (mine.names, mine.size, mine.other_size, cfg.CONF.plugin_flag) == (["x", "y"], 7, 3, True)
    assert {(SMALL_GROUP, "size"), (SMALL_GROUP, "other_size"), ("DEFAULT", "plugin_flag")} <= registered_options()
    with context().activated():
        assert cfg.CONF[SMALL_GROUP].size == 1


def test_the_fleets_value_is_the_default_and_the_callers_wins(context, tmp_path):
    file = tmp_path / "nova.conf"
    of_fleet, of_file, of_caller = 1, 2, 3
    file.write_text(f"[plugin_layers]\nmiddle = {of_file}\ntop = {of_file}\n")
    fleet = {"plugin_layers": {"bottom": of_fleet, "middle": of_fleet, "top": of_fleet}}
    with context([file], fleet, {"plugin_layers": {"top": of_caller}}).activated():
        cfg.CONF.register_opts([cfg.IntOpt(name) for name in ("bottom", "middle", "top")], group="plugin_layers")
        found = cfg.CONF.plugin_layers
        assert (found.bottom, found.middle, found.top) == (of_fleet, of_file, of_caller)


def test_an_option_may_be_imported_from_a_module_of_nova(context):
    with context().activated():
        cfg.CONF.import_opt("default_availability_zone", "nova.availability_zones")
        cfg.CONF.import_opt("ram_weight_multiplier", "nova.scheduler.weights.ram", group="filter_scheduler")
        assert cfg.CONF.default_availability_zone == "nova"


def test_two_plugins_that_disagree_on_an_option_are_told(context):
    with context().activated():
        cfg.CONF.register_opt(cfg.IntOpt("disputed", default=1), group=SMALL_GROUP)
        with pytest.raises(cfg.DuplicateOptError, match="disputed"):
            cfg.CONF.register_opt(cfg.IntOpt("disputed", default=2), group=SMALL_GROUP)


def test_schedulers_that_take_turns_each_have_their_own_options(scheduler_with):
    everywhere = scheduler_with(BURST)
    somewhere = scheduler_with(BURST, lines="[burst]\nenabled = true\nhosts = a1, a2, b1\n")
    for _ in range(2):
        assert set(ask(everywhere)) == {"a1", "a2", "b1", "c1"}
        assert ask(somewhere) == ["c1"]


def test_schedulers_that_take_turns_each_have_their_own_fleet(scheduler_with):
    path = "rocky_lazy_filter.LazyFilter"
    one = scheduler_with(path)
    host = {"vcpus_total": 4, "total_usable_ram_mb": 4096, "total_usable_disk_gb": 100}
    racks = [{"name": "x", "hosts": ["far"], "metadata": {"rack": "r1"}}]
    document = {"hosts": [{"host": "far", **host}, {"host": "a1", **host}], "aggregates": racks}
    other = scheduler_with(path, document=document)
    for _ in range(2):
        assert set(ask(one)) == {"a1", "a2"}
        assert ask(other) == ["far"]


def test_a_pipeline_can_be_built_without_a_fleet():
    rules = {"available_filters": ["rocky_lazy_filter.LazyFilter"], "enabled_filters": ["LazyFilter"]}
    pipeline = build_pipeline(read_options(explicit={"filter_scheduler": rules}), [PLUGINS])
    assert [each.name for each in pipeline.rules.filters] == ["LazyFilter"]


def test_schedulers_in_threads_do_not_mix_their_options(scheduler_with):
    everywhere = scheduler_with(BURST)
    somewhere = scheduler_with(BURST, lines="[burst]\nenabled = true\nhosts = a1, a2, b1\n")
    with ThreadPoolExecutor(2) as pool:
        all_of_one = pool.submit(lambda: [set(ask(everywhere)) for _ in range(20)])
        all_of_other = pool.submit(lambda: [set(ask(somewhere)) for _ in range(20)])
        assert all(each == {"a1", "a2", "b1", "c1"} for each in all_of_one.result())
        assert all(each == {"c1"} for each in all_of_other.result())
