# SPDX-License-Identifier: Apache-2.0
"""Explanations of generated requests: they agree with the placement, and with every check run alone."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count

import pytest
from tests.engines import FULL_SCAN
from tests.parity.sequences import Sequence

from roost.errors import NoValidHost, RoostError
from roost.filters.base import applies_to_rebuild
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec
from roost.questions.explain import explain_host, explain_request
from roost.scheduler.checks import is_forced
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import BEST

CASES = 1000
LARGE = ({"vcpus": 6}, {"memory_mb": 3000}, {"root_gb": 30}, {"vcpus": 500, "memory_mb": 1_000_000})
Case = tuple[Pipeline, HostTable, RequestSpec]


def cases(first_seed: int) -> Iterator[Case]:
    """Requests on random fleets, each fleet with a random set of rules: as many as are asked for.

    Each request comes again for flavors that are larger, and mostly fit nowhere.
    """
    for seed in count(first_seed):
        made = Sequence(seed)
        pipeline = made.plan.build(FULL_SCAN)
        for spec in made.shapes:
            yield pipeline, made.table, spec
            for amount in LARGE:
                yield pipeline, made.table, replace(spec, flavor=replace(spec.flavor, **amount))


def place(case: Case) -> Decision:
    """The decision of a placement, also of one that failed; the table is left alone."""
    pipeline, table, spec = case
    uuids = [spec.instance_uuid or "a", *(f"b{number}" for number in range(1, spec.num_instances))]
    try:
        return pipeline.place(table.copy(), spec, uuids, randomness=random.Random(1), clock=lambda: 0)
    except NoValidHost as failure:
        return failure.decision


def test_the_counts_of_a_thousand_failing_requests_add_up_to_the_number_of_hosts():
    failing = 0
    for case in cases(0):
        try:
            explanation = explain_request(*case)
        except RoostError as error:
            with pytest.raises(type(error)):
                place(case)
            continue
        assert sum(each.hosts for each in explanation.reasons) == len(explanation.rejections)
        if not explanation.fits:
            failing += 1
            assert len(explanation.rejections) == len(case[1])
        if failing % 8 == 0:
            check_against_placement(case, explanation)
        if failing == CASES:
            break


def check_against_placement(case, explanation):
    pipeline, _, spec = case
    if pipeline.choice != BEST and spec.num_instances > 1:
        return  # chance decides who is left for the later ones
    decision = place(case)
    assert explanation.fits == decision.is_placed
    if spec.num_instances == 1:
        assert {each.name: each.hosts for each in explanation.reasons if each.hosts} == decision.rejected
        funnel = [(each.stage, each.name, each.before, each.after) for each in explanation.steps]
        assert [each for each in funnel if each[2] > each[3]] == [
            each[:4] for each in decision.steps if each.before > each.after
        ]
    elif not spec.instance_group:
        assert explanation.placed == (spec.num_instances if decision.is_placed else decision.failed_at)


def names_alone(case: Case, row: int) -> list[str]:
    """The checks that reject a row when they are asked about nothing but that row; errors reject."""
    pipeline, table, spec = case
    rules = pipeline.rules
    before = [check for check in rules.checks(table, spec, 0) if check.stage != "filter"]
    filters = [rule for rule in rules.filters if rule.applies_to(spec) and not is_forced(spec)]
    asked = [(check.name, check.ask) for check in before]
    asked += [
        (rule.name, partial(rule.answers, spec=spec))
        for rule in filters
        if not spec.is_rebuild or applies_to_rebuild(rule)
    ]
    return [name for name, ask in asked if ask is not None and rejects(ask, table, row)]


def rejects(ask, table, row):
    try:
        return not ask(table.one(row))[0]
    except RoostError:
        return True


def test_the_blockers_of_a_host_are_the_checks_that_reject_it_when_run_alone():
    dice, seen, told = random.Random(7), Counter(), 0
    for pipeline, table, spec in cases(5000):
        case = pipeline, table, spec.changed(num_instances=1)
        if not pipeline.rules.are_built_in:
            continue  # a plugin may look at all hosts at once
        row = dice.randrange(len(table))
        try:
            names = [each.name for each in explain_host(*case, row).blockers]
        except RoostError:
            continue
        assert names == names_alone(case, row), spec
        seen.update(names)
        told += 1
        if told == CASES:
            break
    assert len(seen) >= 30  # kinds of checks
