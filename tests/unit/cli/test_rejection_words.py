# SPDX-License-Identifier: Apache-2.0
import pytest

from roost.cli.explain import what_is_wrong
from roost.filters.base import Filter
from roost.plugins.registry import FILTERS
from roost.questions.funnel import subject_of
from roost.scheduler.checks import filter_check
from roost.testing import make_spec


@pytest.mark.parametrize("rule", [each for each in FILTERS if each.__name__ != "AllHostsFilter"])
def test_what_a_built_in_filter_rejects_is_told_in_words(rule: type[Filter]):
    subject = subject_of(filter_check(rule(), make_spec()))
    assert "rejected by" not in what_is_wrong("filter", subject)


def test_what_a_plugin_rejects_is_told_by_its_name():
    assert what_is_wrong("filter", "LicenceFilter") == "rejected by LicenceFilter"


def test_an_amount_is_told_by_its_resource_class():
    assert what_is_wrong("capacity", "CUSTOM_FPGA") == "without enough CUSTOM_FPGA"


def test_an_implied_trait_is_told_by_the_request_filter_that_asks_for_it():
    assert what_is_wrong("prefilter", "virtio_sound") == "without the traits of virtio_sound"
