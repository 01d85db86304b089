# SPDX-License-Identifier: Apache-2.0
"""Plugins written for nova, through the real command, with the nova.conf of their time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compat.conftest import DOCUMENT, PLUGINS

ICEHOUSE = """\
[DEFAULT]
scheduler_available_filters = nova.scheduler.filters.all_filters
scheduler_available_filters = icehouse_tenant_filter.TenantFilter
scheduler_available_filters = havana_rack_filter.RackFilter
scheduler_default_filters = ComputeFilter,TenantFilter,RackFilter
scheduler_weight_classes = juno_spread_weigher.SpreadWeigher
rack_key = rack
spread_weight_multiplier = 5.0
"""
TODAY = """\
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = rocky_lazy_filter.LazyFilter
enabled_filters = ComputeFilter,LazyFilter
weight_classes = nova.scheduler.weights.all_weighers
weight_classes = stein_tier_weigher.TierWeigher
[tiers]
tier_weight_multiplier = 2.0
"""


@pytest.fixture
def place(tmp_path):
    """Runs `roost place` with this configuration, which lies with the fleet in a folder of its own."""

    def run(config, *arguments):
        (tmp_path / "fleet.json").write_text(json.dumps(DOCUMENT))
        (tmp_path / "nova.conf").write_text(config)
        files = ["--fleet", str(tmp_path / "fleet.json"), "--config-file", str(tmp_path / "nova.conf")]
        size = ["--vcpus", "1", "--ram", "1024", "--project", "blue"]
        command = [str(Path(sys.executable).with_name("roost")), "place", *files, *size, "-f", "json", *arguments]
        return subprocess.run(command, cwd=PLUGINS, capture_output=True, text=True, timeout=60)

    return run


def test_icehouse(place):
    done = place(ICEHOUSE, "--hint", "rack=r1")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["selections"][0]["host"] == "a2"
    assert [(each["name"], each["after"]) for each in answer["decision"]["steps"] if each["stage"] == "filter"] == [
        ("ComputeFilter", 4),
        ("TenantFilter", 4),
        ("RackFilter", 2),
    ]


def test_today(place):
    done = place(TODAY)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["selections"][0]["host"] in ("a1", "a2")


def test_a_name_that_is_missing_is_one_line(place, tmp_path):
    (tmp_path / "wants_virt.py").write_text("from nova.virt import hardware\n")
    done = place(TODAY.replace("rocky_lazy_filter.LazyFilter", "wants_virt.LazyFilter"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "roost: wants_virt.LazyFilter: it imports nova.virt, which Roost does not have "
        "(docs/how-to/plugins-of-nova.md lists what there is)\n"
    )
