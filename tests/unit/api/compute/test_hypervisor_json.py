# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from roost.api.compute.hypervisors import detailed
from roost.api.microversions import v
from roost.records.hypervisors import HypervisorRecord

NODE = HypervisorRecord(
    **dict.fromkeys((each.name for each in dataclasses.fields(HypervisorRecord) if each.name != "servers"), 0)
)


@pytest.mark.parametrize(
    ("reported", "as_text", "as_object"),
    [
        ({"vendor": "Intel"}, '{"vendor": "Intel"}', {"vendor": "Intel"}),
        ('{"vendor": "Intel"}', '{"vendor": "Intel"}', {"vendor": "Intel"}),
        (None, "{}", {}),
        ("", "", {}),
        ("[1]", "[1]", {}),
        ("no json", "no json", {}),
    ],
)
def test_cpus_are_text_before_2_28_whatever_an_agent_reported(reported, as_text, as_object):
    node = dataclasses.replace(NODE, cpu_info=reported)
    assert detailed(v(27), node, with_servers=False)["cpu_info"] == as_text
    assert detailed(v(28), node, with_servers=False)["cpu_info"] == as_object
