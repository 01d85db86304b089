# SPDX-License-Identifier: Apache-2.0
"""D33: every count that a report prints adds up, and one thing has one count in all places, for random fleets."""

import random
import re
from collections import Counter
from dataclasses import replace
from functools import cache

from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tests.parity import random_fleets, random_requests
from tests.unit.questions.random_headroom import random_document, random_request

from roost import Fleet, NoValidHost, Scheduler
from roost.cli.capacity import hosts_report, one_flavor_report
from roost.cli.explain import explanation_report, host_explanation_report
from roost.errors import BadInput, RoostError
from roost.hosts import HostTable
from roost.model.json_records import to_json
from roost.questions.blockers import find_blockers
from roost.questions.explain import explain_host, explain_request
from roost.questions.funnel import find_explained_instance
from roost.scheduler.all_options import read_options
from roost.scheduler.build import build_pipeline
from roost.testing import make_hosts, make_spec

FILTERS = (
    "ComputeFilter ComputeCapabilitiesFilter ImagePropertiesFilter ServerGroupAntiAffinityFilter RamFilter"
    " ServerGroupAffinityFilter AvailabilityZoneFilter NUMATopologyFilter PciPassthroughFilter CoreFilter DiskFilter"
    " IoOpsFilter NumInstancesFilter AggregateInstanceExtraSpecsFilter AggregateMultiTenancyIsolation SameHostFilter"
    " DifferentHostFilter RetryFilter JsonFilter TypeAffinityFilter"
).split()
FIELDS = ("resources", "instances", "service", "pci_pools", "numa", "traits", "allocation_candidates")
ROOMY = {"vcpus_total": 64, "total_usable_ram_mb": 65536, "total_usable_disk_gb": 1000, "traits": ["CUSTOM_GOLD"]}
FAULTS = {
    "disabled": {"service": {"disabled": True}},
    "down": {"service": {"up": False}},
    "few CPUs": {"vcpus_total": 1},
    "little memory": {"total_usable_ram_mb": 512},
    "little disk": {"total_usable_disk_gb": 5},
    "no trait": {"traits": []},
    "busy": {"num_io_ops": 9},
    "crowded": {"num_instances": 60},
    "in another zone": {"aggregates": [{"availability_zone": "az2"}]},
}
"""Why a host may take no instance -> its fields."""
HEALTHY = ROOMY | {"service": {}, "num_io_ops": 0, "num_instances": 0, "aggregates": [{"availability_zone": "az1"}]}


class Question:
    """A request to a fleet, and its explanation."""

    def __init__(self, table, pipeline, spec):
        self.table, self.pipeline, self.spec = table, pipeline, spec
        self.explained = explain_request(pipeline, table, spec)

    def instance(self):
        return find_explained_instance(self.pipeline, self.table, self.spec)

    def decide(self):
        """The decision about the request, on a copy of the fleet."""
        spec, group = self.spec, self.spec.instance_group
        uuids = [spec.instance_uuid or "u0", *(f"u{at}" for at in range(1, spec.num_instances))]
        spec = spec.with_group(group.updated((*group.members, *uuids), group.hosts)) if group else spec
        chance = {"randomness": random.Random(1), "clock": lambda: 0}
        try:
            return self.pipeline.place(self.table.copy(), spec, uuids, **chance)
        except NoValidHost as error:
            return error.decision


@cache
def pipeline_of(*filters):
    return build_pipeline(read_options(explicit={"filter_scheduler": {"enabled_filters": list(filters)}}))


@st.composite
def plain_questions(draw):
    """Hosts with some faults each, of which the request minds some; now and then hosts have two nodes."""
    faults = draw(st.lists(st.sets(st.sampled_from(sorted(FAULTS)), min_size=1, max_size=2), max_size=24))
    nodes = draw(st.sampled_from([1, 1, 2]))
    hosts = [
        HEALTHY
        | {"host": f"host{at // nodes:02}", "node": f"n{at % nodes}"}
        | {name: value for each in sorted(own) for name, value in FAULTS[each].items()}
        for at, own in enumerate([*faults, *draw(st.sampled_from([[], [()]]))])
    ]
    table = make_hosts(len(hosts), **{name: [host[name] for host in hosts] for name in (hosts[0] if hosts else ())})
    zone, gold = draw(st.sampled_from([None, "az1", "az1", "az3"])), draw(st.booleans())
    spec = make_spec(
        vcpus=draw(st.sampled_from([2, 2, 100])),
        memory_mb=draw(st.sampled_from([1024, 1024, 100_000])),
        root_gb=10,
        extra_specs={"trait:CUSTOM_GOLD": "required"} if gold else {},
        availability_zone=zone,
        num_instances=draw(st.integers(1, 3)),
    )
    filters = draw(st.sampled_from([FILTERS, ["ComputeFilter", "RamFilter"], ["AvailabilityZoneFilter"]]))
    return Question(table, pipeline_of(*filters), spec)


@st.composite
def odd_questions(draw):
    """Of the fleets and requests of the parity tests: devices, topologies, candidates, groups, hints, queries."""
    dice = random.Random(draw(st.integers(0, 2**32)))
    shape = random_fleets.make_fleet(dice, tuple(dice.sample(FIELDS, 2)), ("availability_zone", "ssd"))
    table = HostTable.of(random_fleets.make_records(dice, shape))
    spec = random_requests.make_shape(dice, list(table.names), True, True)
    if dice.random() < 0.4:
        spec = spec.changed(availability_zone=dice.choice(["az1", "az9"]))
    if dice.random() < 0.4:
        spec = replace(spec, flavor=replace(spec.flavor, memory_mb=dice.choice([4096, 100_000])))
    pipeline = pipeline_of(*dice.choice([FILTERS, FILTERS[:6], FILTERS[6:12]]))
    try:
        return Question(table, pipeline, spec)
    except RoostError:  # a rule cannot be applied to it, so nothing is printed
        reject()


QUESTIONS = plain_questions() | odd_questions()


def number(text):
    return int(text.replace(",", ""))


def sentence(text):
    return " ".join(text.split())


def counts_before_words(text):
    """`12 without room, 3 disabled and 2 for other reasons` -> [12, 3, 2]."""
    return [number(each) for each in re.findall(r"(?:^|, | and )([\d,]+) (?=[a-z])", text)]


def counts_in_brackets(text):
    return [number(each) for each in re.findall(r"\(([\d,]+)\)", text)]


@given(QUESTIONS)
@settings(max_examples=60)
def test_the_steps_of_an_explanation_add_up_to_all_hosts(question):
    found = question.explained
    left = found.hosts
    for step in found.steps:
        assert step.before == left
        left = step.after
    assert left == found.fitting or not found.hosts
    first = {each.name: each.hosts for each in found.reasons if each.hosts}
    assert first == {each.name: each.before - each.after for each in found.steps if each.before > each.after}
    assert first == Counter(each.name for each in found.rejections)
    assert sum(first.values()) + found.fitting == found.hosts


@given(QUESTIONS)
@settings(max_examples=60)
def test_a_check_and_a_subject_reject_as_many_hosts_in_all_as_there_are_rows_for_them(question):
    blockers, found = find_blockers(question.instance()), question.explained
    masks = {put.check.name: mask for put, mask in zip(blockers.checks, blockers.masks, strict=True)}
    of_subject = {}
    for each in found.rejections:
        subject = next(reason.subject for reason in found.reasons if reason.name == each.name)
        of_subject.setdefault(subject, set()).add((each.host, each.node))
    for each in found.reasons:
        rejected = {question.table.names[row] for row in masks[each.name].nonzero()[0]}
        of_subject.setdefault(each.subject, set()).update(rejected)
        first = {(one.host, one.node) for one in found.rejections if one.name == each.name}
        assert each.hosts_in_all == len(rejected | first)
    for each in found.reasons:
        assert each.hosts_of_subject == len(of_subject[each.subject])


@given(QUESTIONS)
@settings(max_examples=60)
def test_a_report_of_a_failure_adds_up_in_its_sentence_its_table_and_what_would_help(question):
    """D33: `1 disabled or down` and `disabled or down (2)` on one screen."""
    if question.explained.fits or not question.explained.hosts:
        return
    found, report = question.explained, explanation_report(question.explained)
    rejected = found.hosts - found.fitting
    total, wrong = re.fullmatch(r".*o host of ([\d,]+) fits: (.*)\.", sentence(report.lead)).groups()
    assert number(total) == found.hosts
    assert sum(counts_before_words(wrong)) == rejected
    assert f"Rejected adds up to {rejected:,} host" in report.caption
    reasons, left = {each.name: each for each in found.reasons}, found.hosts
    subjects = Counter(reasons[name].subject for _, name, *_ in report.rows)
    for _, name, before, lost, after, in_all in report.rows:
        if before != "":
            assert (before, after) == (left, left - lost)
            left = after
        assert in_all >= lost
        if subjects[reasons[name].subject] == 1:
            assert in_all == reasons[name].hosts_of_subject
    assert sum(row[3] for row in report.rows) == rejected
    for miss in found.misses:
        there = re.search(r"(?:has|found on) ([\d,]+) hosts?, rejected by (.*)", miss.text)
        assert there is None or sum(counts_in_brackets(there[2])) == number(there[1]), miss.text


def test_hosts_rejected_for_seldom_reasons_are_counted_as_hosts():
    """D33: `and 2 more` was the number of reasons, after numbers of hosts."""
    kinds = ["few CPUs", "little memory", "little disk", "no trait", "busy", "in another zone"]
    hosts = [HEALTHY | FAULTS[kind] for kind in kinds for _ in range(2)]
    table = make_hosts(**{name: [host[name] for host in hosts] for name in HEALTHY})
    gold = {"trait:CUSTOM_GOLD": "required"}
    spec = make_spec(vcpus=2, memory_mb=1024, root_gb=10, extra_specs=gold, availability_zone="az1")
    report = explanation_report(Question(table, pipeline_of(*FILTERS), spec).explained)
    assert sentence(report.lead) == (
        "No host of 12 fits: 2 outside the zone, 2 without enough CPUs, 2 without enough memory,"
        " 2 without enough disk and 4 for other reasons."
    )


@given(QUESTIONS)
@settings(max_examples=60)
def test_what_would_help_has_one_count_in_all_places(question):
    if question.explained.fits:
        return
    found = question.explained
    misses = {each.subject: each for each in found.misses}
    for lift in found.lifts:
        assert len(set(lift.examples)) == min(3, lift.hosts)
        if len(lift.subjects) == 1:
            assert misses[lift.subjects[0]].only_obstacle == lift.hosts
    of_subject = {each.subject: each.hosts_of_subject for each in found.reasons}
    if "disabled" in misses:
        said = misses["disabled"].text.partition(" in all; of ")[0]
        assert sum(counts_before_words(said)) == of_subject["disabled"]


@given(QUESTIONS)
@settings(max_examples=60)
def test_a_decision_and_its_explanation_tell_the_same_counts(question):
    try:
        decision = question.decide()
    except RoostError:  # of a host that only a further instance meets
        return
    found, left = question.explained, decision.hosts
    for step in decision.steps:
        assert step.before == left
        left = step.after
    assert decision.hosts == found.hosts
    assert decision.is_placed == found.fits
    first = {each.name: each.hosts for each in found.reasons if each.hosts}
    if not decision.is_placed:
        assert decision.failed_at == found.placed
        assert decision.rejected == first
        said = re.sub(r"\([^)]*\)", "", decision.summary.partition(": ")[2])
        assert not found.hosts or sum(int(each.split()[0]) for each in said.split(", ")) == found.hosts
    elif found.wanted == 1:
        assert decision.rejected == first
    record = to_json(decision)["decision"]
    assert [each["before"] - each["after"] for each in record["steps"]] == [
        each.before - each.after for each in decision.steps
    ]


@given(QUESTIONS)
@settings(max_examples=60)
def test_a_report_of_a_request_that_fits_adds_up(question):
    if not question.explained.fits:
        return
    found, report = question.explained, explanation_report(question.explained)
    told = sentence(report.lead)
    if among := re.search(r"of the ([\d,]+) hosts, of ([\d,]+), that can", told):
        assert [number(each) for each in among.groups()] == [found.fitting, found.hosts]
    else:
        assert f"only one of {found.hosts:,} host" in told
        assert found.fitting == 1
    rejected = re.search(r"Rejected: (.*?)\.\s", f"{sentence(report.caption)} ")
    assert (sum(counts_before_words(rejected[1])) if rejected else 0) == found.hosts - found.fitting


@given(QUESTIONS)
@settings(max_examples=60)
def test_the_explanation_of_a_host_agrees_with_that_of_the_request(question):
    found = question.explained
    first = {(each.host, each.node): (each.name, each.reason) for each in found.rejections}
    for row, pair in enumerate(question.table.names[:4]):
        about = explain_host(question.pipeline, question.table, question.spec, row)
        assert (about.hosts, about.fitting) == (found.hosts, found.fitting)
        assert [(each.name, each.reason) for each in about.blockers if each.is_first] == (
            [first[pair]] if pair in first else []
        )
        if about.blockers:
            report = host_explanation_report(about)
            checks, reasons = len(report.rows), len({each.subject for each in about.blockers})
            said = f"{checks} checks reject it" if checks > 1 else "1 check rejects it"
            said += f", for {reasons} reason{'s' * (reasons > 1)}." if reasons < checks else "."
            assert report.lead.endswith(said)


@given(st.integers(0, 2**32))
@settings(max_examples=40)
def test_headroom_adds_up_over_groups_hosts_and_checks(seed):
    dice = random.Random(seed)
    fleet = Fleet.load(random_document(dice))
    try:
        found = Scheduler(fleet, seed=1).headroom(
            random_request(dice, fleet), by=dice.choice(["rack", "availability_zone"])
        )
    except BadInput:
        return
    groups = found.groups
    assert sum(each.fits for each in groups) == sum(each.fits for each in found.placed) == found.fits
    assert sum(each.hosts for each in groups) == sum(each.hosts for each in found.shortages) == found.hosts
    assert sum(each.hosts_used for each in groups) == len(found.placed) == found.hosts_used
    for shortage in found.shortages:
        in_groups = [each for group in groups for each in group.shortages if each.name == shortage.name]
        assert sum(each.hosts for each in in_groups) == shortage.hosts
        assert sum(each.ran_out_on for each in in_groups) == shortage.ran_out_on
    report = one_flavor_report("f", found)
    assert [sum(row[at] for row in report.rows) for at in (1, 2, 3)] == [found.hosts, found.fits, found.hosts_used]
    assert sum(row[2] for row in hosts_report("f", found).rows) == found.fits
    left_out = re.sub(r"\([^)]*\)", "", report.caption.partition("left out in the end: ")[2].partition("\n")[0])
    assert sum(int(each.split()[0]) for each in left_out.split(", ")) == found.hosts
