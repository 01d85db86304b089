# SPDX-License-Identifier: Apache-2.0
"""Who finds nova: plugins, at any time; nobody else; and a real one comes first. Each in a process of its own."""

import subprocess
import sys
import textwrap

import pytest
from tests.compat.conftest import PLUGINS

PREAMBLE = """
import importlib.util, sys
from roost import Fleet, Flavor, RequestSpec, Scheduler
FLEET = Fleet.load({"hosts": [{"host": h, "vcpus_total": 4, "total_usable_ram_mb": 4096} for h in ("a1", "b2")],
                    "aggregates": [{"name": "one", "hosts": ["a1"], "metadata": {"rack": "r1"}}]})
def scheduler(path):
    name = path.rpartition(".")[2]
    return Scheduler(FLEET, {"filter_scheduler": {"available_filters": [path], "enabled_filters": [name]}})
def place(scheduler):
    return scheduler.place(RequestSpec(flavor=Flavor(vcpus=1, memory_mb=64)), alternates=5)
def has_nova():
    return any(name.partition(".")[0] in ("nova", "oslo") for name in sys.modules), importlib.util.find_spec("nova")
"""


@pytest.fixture
def run(tmp_path):
    """Runs a program where the plugins lie; gives what it printed."""

    def run(program, *more_places):
        places = [str(each) for each in more_places]
        code = f"import sys; sys.path[:0] = {places!r}\n{PREAMBLE}{textwrap.dedent(program)}"
        command = [sys.executable, "-W", "error::ImportWarning", "-c", code]
        done = subprocess.run(command, cwd=PLUGINS, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:-1]

    return run


def test_without_plugins_there_is_no_nova(run):
    assert run("Scheduler(FLEET); print(has_nova())") == ["(False, None)"]


def test_without_plugins_the_table_of_novas_modules_is_not_loaded(run):
    program = """
    place(Scheduler(FLEET))
    print("roost.plugins.nova_modules" in sys.modules)
    """
    assert run(program) == ["False"]


def test_loading_a_plugin_leaves_no_nova_behind_for_others(run):
    program = """
    one = scheduler("icehouse_tenant_filter.TenantFilter")
    print(has_nova())
    try:
        import nova
    except ImportError as error:
        print(error)
    place(one)
    print(has_nova())
    """
    assert run(program) == ["(False, None)", "No module named 'nova'", "(False, None)"]


def test_a_plugin_finds_nova_whenever_it_runs(run):
    program = """
    one = scheduler("rocky_lazy_filter.LazyFilter")
    print(has_nova())
    print(place(one).selections[0].host)
    """
    assert run(program) == ["(False, None)", "a1"]


def test_a_plugin_that_starts_threads_finds_nova_and_its_fleet_there_too(run, tmp_path):
    (tmp_path / "threaded.py").write_text(
        textwrap.dedent(
            """
            from concurrent.futures import ThreadPoolExecutor
            from nova.scheduler import filters
            def racks(host):
                from nova import objects
                return [each.metadata["rack"] for each in objects.AggregateList.get_by_host(None, host)]
            class Threaded(filters.BaseHostFilter):
                def host_passes(self, host_state, spec_obj):
                    with ThreadPoolExecutor(1) as pool:
                        return pool.submit(racks, host_state.host).result() == ["r1"]
            """
        )
    )
    assert run("print(place(scheduler('threaded.Threaded')).selections[0].host)", tmp_path) == ["a1"]


def test_a_real_nova_comes_first_and_its_plugins_are_taken_in(run, tmp_path):
    package = tmp_path / "nova" / "scheduler" / "filters"
    package.mkdir(parents=True)
    (tmp_path / "nova" / "__init__.py").write_text("REAL = True\n")
    (tmp_path / "nova" / "scheduler" / "__init__.py").write_text("")
    (package / "__init__.py").write_text(
        textwrap.dedent(
            """
            class BaseHostFilter:
                run_filter_once_per_request = False
                RUN_ON_REBUILD = False
                def run_filter_for_index(self, index):
                    return True
                def filter_all(self, hosts, spec_obj):
                    return (host for host in hosts if self.host_passes(host, spec_obj))
            """
        )
    )
    (tmp_path / "on_real.py").write_text(
        textwrap.dedent(
            """
            import nova
            from nova.scheduler import filters
            assert nova.REAL
            try:
                import nova.conf
            except ImportError:
                pass
            else:
                raise AssertionError("half a nova is ours")
            class OnReal(filters.BaseHostFilter):
                def host_passes(self, host_state, spec_obj):
                    return host_state.host == "b2" and spec_obj.flavor.memory_mb == 64
            """
        )
    )
    program = """
    one = scheduler("on_real.OnReal")
    import nova
    print(nova.REAL, [type(each).__name__ for each in one.pipeline.rules.filters], place(one).selections[0].host)
    """
    assert run(program, tmp_path) == ["True ['OnReal'] b2"]


def test_a_program_that_uses_oslos_options_for_itself_keeps_them(run, tmp_path):
    (tmp_path / "own.conf").write_text("[mine]\ncolour = green\n")
    program = f"""
    from oslo_config import cfg
    cfg.CONF.register_opt(cfg.StrOpt("colour"), group="mine")
    cfg.CONF([], project="mine", default_config_files=[{str(tmp_path / "own.conf")!r}])
    one = scheduler("newton_burst_filter.BurstFilter")
    print(cfg.CONF.mine.colour, place(one).selections[0].host, cfg.CONF.mine.colour)
    """
    assert run(program) == ["green a1 green"]


def test_a_library_that_a_plugin_brings_along_finds_no_nova_by_itself(run, tmp_path):
    (tmp_path / "some_library.py").write_text(
        "import importlib.util\ndef has_nova():\n    return importlib.util.find_spec('nova') is not None\n"
    )
    (tmp_path / "with_library.py").write_text(
        "import some_library\nfrom nova.scheduler import filters\n"
        "class WithLibrary(filters.BaseHostFilter):\n"
        "    def host_passes(self, host_state, spec_obj):\n        return True\n"
    )
    program = """
    one = scheduler("with_library.WithLibrary")
    import some_library
    print(place(one).selections[0].host, some_library.has_nova())
    """
    assert run(program, tmp_path) == ["a1 False"]


def test_the_modules_of_a_plugins_package_find_nova_too(run, tmp_path):
    package = tmp_path / "company" / "rules"
    package.mkdir(parents=True)
    (tmp_path / "company" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "asking.py").write_text(
        "def racks(host):\n    from nova.objects import aggregate\n"
        "    return [each.name for each in aggregate.AggregateList.get_by_host(None, host)]\n"
    )
    (package / "rack.py").write_text(
        "from nova.scheduler.filters import BaseHostFilter\nfrom company.rules import asking\n"
        "class Rack(BaseHostFilter):\n    def host_passes(self, host_state, spec_obj):\n"
        "        return asking.racks(host_state.host) == ['one']\n"
    )
    program = """
    print([each.host for each in place(scheduler("company.rules.rack.Rack")).selections])
    from company.rules import asking
    print(asking.racks("b2"))
    """
    assert run(program, tmp_path) == ["['a1']", "[]"]


@pytest.mark.parametrize(
    "line",
    [
        "from nova.scheduler.filters import BaseHostFilter",
        "from nova.scheduler.filters.utils import validate_num_values",
        "from nova import objects",
    ],
)
def test_a_module_elsewhere_that_uses_a_name_of_nova_finds_nova_later_too(run, tmp_path, line):
    (tmp_path / "racks_of.py").write_text(
        f"{line}\ndef racks(host):\n    from nova.objects import aggregate\n"
        "    return [each.name for each in aggregate.AggregateList.get_by_host(None, host)]\n"
    )
    (tmp_path / "with_racks.py").write_text(
        "import racks_of\nfrom nova.scheduler import filters\n"
        "class WithRacks(filters.BaseHostFilter):\n"
        "    def host_passes(self, host_state, spec_obj):\n        return True\n"
    )
    program = """
    one = scheduler("with_racks.WithRacks")
    import racks_of
    print(has_nova(), racks_of.racks("a1"))
    """
    assert run(program, tmp_path) == ["(False, None) ['one']"]


def test_a_fleet_that_nobody_uses_any_more_is_let_go(run):
    program = """
    import gc, weakref
    table = weakref.ref(Scheduler(FLEET).table)
    gc.collect()
    print(table())
    """
    assert run(program) == ["None"]
