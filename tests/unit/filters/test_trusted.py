# SPDX-License-Identifier: Apache-2.0
"""TrustedFilter: spec/filters.md 5.27. Who asks the attestation service is tested in tests/unit/attestation."""

import pytest

from roost.filters.base import applies_to_rebuild
from roost.filters.trusted import TrustedFilter
from roost.testing import make_hosts, make_spec


@pytest.mark.parametrize(
    ("wanted", "level", "passes"),
    [
        (None, "untrusted", True),
        ("", "untrusted", True),
        ("trusted", "trusted", True),
        ("trusted", "untrusted", False),
        ("trusted", "unknown", False),
        ("untrusted", "untrusted", True),
        ("unknown", "unknown", True),
        ("Trusted", "trusted", False),
    ],
)
def test_worked_examples(wanted, level, passes):
    extra_specs = {} if wanted is None else {"trust:trusted_host": wanted}
    hosts = make_hosts(1, trust_level=level)
    assert TrustedFilter().mask(hosts, make_spec(extra_specs=extra_specs)).tolist() == [passes]


def test_a_host_nobody_vouched_for_is_unknown():
    spec = make_spec(extra_specs={"trust:trusted_host": "unknown"})
    assert TrustedFilter().mask(make_hosts(1), spec).tolist() == [True]


@pytest.mark.parametrize("extra_specs", [{}, {"trust:trusted_host": ""}, {"trusted_host": "trusted"}])
def test_without_a_level_it_has_nothing_to_do(extra_specs):
    assert not TrustedFilter().applies_to(make_spec(extra_specs=extra_specs))


def test_it_runs_once_per_request_and_not_on_rebuild():
    assert not TrustedFilter().run_filter_for_index(1)
    assert not applies_to_rebuild(TrustedFilter())


def test_the_reason_names_both_levels():
    (host,) = make_hosts(1, trust_level="untrusted")
    reason = TrustedFilter().reason(host, make_spec(extra_specs={"trust:trusted_host": "trusted"}))
    assert reason == "trust level trusted asked; the host is untrusted"
