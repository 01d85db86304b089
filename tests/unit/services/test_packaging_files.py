# SPDX-License-Identifier: Apache-2.0
"""What is installed beside the program fits it: units, rules, folders."""

import configparser
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from roost.cli.commands import COMMANDS
from roost.cli.main import Roost
from roost.scheduler.options import ServiceOptions
from roost.services.metric_definitions import METRIC_DEFINITIONS

PACKAGING = Path(__file__).parents[3] / "packaging"
UNITS = sorted((PACKAGING / "systemd").glob("*.service"))
ALERTS = PACKAGING / "prometheus/roost-alerts.yaml"


class Repeated(dict):
    """systemd lets a key stand several times in a section; the values gather in a list."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and isinstance(self.get(key), list):
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


def read(unit):
    parser = configparser.RawConfigParser(dict_type=Repeated, strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(unit.read_text(encoding="utf-8"))
    found = defaultdict(dict)
    for section in parser.sections():
        for key, value in parser.items(section):
            found[section][key] = value
    return found


def by_name(unit):
    return unit.name


@pytest.fixture(params=UNITS, ids=by_name)
def unit(request):
    return read(request.param)


def test_there_is_a_unit_for_each_service_and_one_for_several_schedulers():
    assert [unit.name for unit in UNITS] == [
        "roost-api.service",
        "roost-compute.service",
        "roost-conductor.service",
        "roost-scheduler.service",
        "roost-scheduler@.service",
    ]
    started = {read(unit)["Service"]["ExecStart"].split()[2] for unit in UNITS}
    assert {f"service {each}" for each in started} == {each for each in COMMANDS if each.startswith("service ")}


def test_the_target_restarts_every_service_that_is_enabled(unit):
    assert unit["Unit"]["PartOf"] == "roost.target"
    assert unit["Install"]["WantedBy"] == "multi-user.target roost.target"
    assert read(PACKAGING / "systemd/roost.target")["Install"]["WantedBy"] == "multi-user.target"


def test_the_agent_may_use_the_socket_of_libvirt():
    assert re.search(r"^m +roost +libvirt$", (PACKAGING / "sysusers.d/roost-compute.conf").read_text(), re.MULTILINE)


def test_only_hosts_with_an_agent_are_told_to_let_roost_use_libvirt():
    blocks = re.findall(r"```sh\n(.*?)```", (PACKAGING / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    everywhere, controllers, agents = blocks
    assert "sysusers.d/roost.conf" in everywhere
    assert not re.search(r"roost-compute|sysusers\.d/\*", everywhere + controllers)
    assert "sysusers.d/roost-compute.conf" in agents


def test_a_unit_has_three_sections_and_says_when_it_is_ready(unit):
    assert list(unit) == ["Unit", "Service", "Install"]
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["NotifyAccess"] == "main"
    assert int(unit["Service"]["WatchdogSec"]) >= 10


def test_systemd_waits_longer_than_the_service_takes_to_stop(unit):
    assert int(unit["Service"]["TimeoutStopSec"]) > ServiceOptions().graceful_shutdown_timeout


def test_it_comes_back_after_a_failure_but_not_after_a_wrong_option(unit):
    assert unit["Service"]["Restart"] == "on-failure"
    assert unit["Service"]["RestartPreventExitStatus"] == "2"
    assert unit["Service"]["ExecReload"] == "/bin/kill -HUP $MAINPID"


@pytest.mark.parametrize(
    ("key", "value"),
    [("User", "roost"), ("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"), ("PrivateTmp", "yes")],
)
def test_it_may_do_little(unit, key, value):
    assert unit["Service"][key] == value


def test_the_units_differ_in_name_and_files_alone():
    one, *others = (read(unit)["Service"] for unit in UNITS)
    for other in others:
        differing = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
        assert differing == {"ExecStart", "RuntimeDirectory"}


def test_the_command_that_is_started_exists_with_its_arguments(unit):
    program, *words = unit["Service"]["ExecStart"].split()
    name = " ".join(words[: words.index("--config-file")])
    parser = COMMANDS[name].load()(Roost(), None, cmd_name=name).get_parser("roost")
    assert program == "/usr/bin/roost"
    assert {word for word in words if word.startswith("-")} <= set(parser._option_string_actions)


@pytest.mark.parametrize("path", UNITS, ids=by_name)
def test_systemd_understands_every_line(path, tmp_path):
    """Where there is a systemd it is asked; elsewhere the names that are used must be those it once understood."""
    used = {key for section in read(path).values() for key in section}
    assert used == set((Path(__file__).parent / "unit_settings.txt").read_text().split())
    if not shutil.which("systemd-analyze"):
        return
    installed = tmp_path / path.name
    installed.write_text(path.read_text().replace("/usr/bin/roost", "/bin/true"))
    said = subprocess.run(["systemd-analyze", "verify", installed], capture_output=True, text=True, check=False)
    assert [line for line in said.stderr.splitlines() if "roost" in line] == []


def test_folders_and_user_are_those_of_the_unit(unit):
    user = unit["Service"]["User"]
    assert re.search(rf"^u +{user} ", (PACKAGING / "sysusers.d/roost.conf").read_text(), re.MULTILINE)
    folders = (PACKAGING / "tmpfiles.d/roost.conf").read_text()
    for folder in ("/etc/roost", f"/var/lib/{unit['Service']['StateDirectory']}", "/var/log/roost"):
        assert re.search(rf"^d +{folder} +0750 ", folders, re.MULTILINE)
    assert "/var/log/roost/*.log {" in (PACKAGING / "logrotate.d/roost").read_text()


def rules():
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return group["rules"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_names_metrics_and_results_that_exist(rule):
    exposed = {metric.name: metric for metric in METRIC_DEFINITIONS}
    for name, _, labels in re.findall(r"(roost_\w+?)(_bucket|_sum|_count)?(\{[^}]*\})?(?=[\s\[]|$)", rule["expr"]):
        allowed = {label.name: label.values for label in exposed[name].labels}
        for label, value in re.findall(r'(\w+)="(\w+)"', labels):
            assert value in allowed[label]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description"}


def test_the_readme_names_every_file_that_is_there():
    text = (PACKAGING / "README.md").read_text(encoding="utf-8")
    files = {str(path.relative_to(PACKAGING)) for path in PACKAGING.rglob("*") if path.is_file()} - {"README.md"}
    assert {name for name in files if f"`{name}`" not in text} == set()
