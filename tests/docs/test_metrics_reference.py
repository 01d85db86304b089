# SPDX-License-Identifier: Apache-2.0
"""Every metric is in the reference, and the page on monitoring names only what exists."""

import re

import pytest
import yaml

from docs import _commands, _generate
from roost.options.declare import declared
from roost.scheduler.all_options import option_owners
from roost.services.metric_definitions import METRIC_DEFINITIONS
from roost.services.options import LogOptions

ROOT = _commands.ROOT
MONITORING = (ROOT / "docs/how-to/monitoring.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page():
    return _generate.metrics_page()


@pytest.mark.parametrize("metric", METRIC_DEFINITIONS, ids=lambda metric: metric.name)
def test_every_metric_is_listed_with_its_meaning_and_its_labels(page, metric):
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{metric.name}` | {metric.kind} |"))
    assert metric.meaning in row
    for label in metric.labels:
        for word in (label.name, *label.values):
            assert f"`{word}`" in row


@pytest.mark.parametrize(
    "metric", [each for each in METRIC_DEFINITIONS if each.buckets], ids=lambda metric: metric.name
)
def test_every_histogram_has_its_buckets_listed(page, metric):
    buckets = page.partition("## Buckets")[2]
    assert f"| `{metric.name}` | {metric.buckets[0]:g}, " in buckets


def test_the_page_on_monitoring_names_only_metrics_that_exist_and_says_what_most_of_them_tell():
    named = set(re.findall(r"roost_\w+?(?=_bucket\b|_sum\b|\b)", MONITORING))
    known = {metric.name for metric in METRIC_DEFINITIONS}
    assert named <= known
    assert len(named) >= 14


def test_every_alert_is_explained_and_every_explained_one_exists():
    (group,) = yaml.safe_load((ROOT / "packaging/prometheus/roost-alerts.yaml").read_text())["groups"]
    explained = re.findall(r"^\| (Roost\w+) \|", MONITORING, re.MULTILINE)
    assert explained == [rule["alert"] for rule in group["rules"]]


@pytest.mark.parametrize("page", ["docs/how-to/monitoring.md", "packaging/README.md"])
def test_every_option_that_is_named_with_its_section_exists(page):
    named = set(re.findall(r"`\[(\w+)\] (\w+)", (ROOT / page).read_text(encoding="utf-8")))
    known = {(option.group, option.name) for owner in option_owners() for option in declared(owner)}
    assert named
    assert named <= known


def test_every_option_of_the_log_that_is_named_exists():
    table = MONITORING.partition("| option in `[DEFAULT]` |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == {option.name for option in declared(LogOptions)} - {"watch_log_file"}
