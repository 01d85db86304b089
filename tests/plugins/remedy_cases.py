"""Fleets of one host that one check rejects, and what happens if its remedy is followed."""

import shlex
from typing import NamedTuple

from docs import _generate
from roost.cli.arguments import add_config_arguments
from roost.cli.commands import Parser
from roost.cli.explain import explanation_report, host_explanation_report
from roost.cli.fleet_arguments import add_what_if_arguments, arguments_for, what_if_fleet, what_if_options
from roost.hosts import HostTable, Inventory
from roost.library import Scheduler
from roost.model.remedy import apply_all_to_request
from roost.options.declare import declared
from roost.plugins.registry import FILTERS
from roost.questions.what_if import changed_fleet, changed_options
from roost.sources.fleet_file import Fleet
from roost.testing import make_records, make_spec

ROOMY = {name: Inventory(10**9) for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
"""Inventories in which the capacity checks find room for everything."""


PARSER = Parser()
add_what_if_arguments(PARSER)
add_config_arguments(PARSER)


def merged(options, more):
    return {section: options.get(section, {}) | more.get(section, {}) for section in {**options, **more}}


class Case(NamedTuple):
    """One host, a request, and the options under which one check rejects it."""

    record: object
    spec: object
    options: dict
    known: tuple = ()

    @property
    def host(self):
        return self.record.host

    @property
    def fleet(self):
        table = HostTable.of([self.record])
        table.known_aggregates = (*table.known_aggregates, *self.known)
        return Fleet(table, runs=((self.record, [(self.record.host, self.record.nodename)]),))

    @property
    def scheduler(self):
        return Scheduler(self.fleet, self.options)

    def following(self, remedy):
        """The case with everything changed as the remedy says."""
        fleet = changed_fleet(self.fleet, remedy.changes)
        options = merged(self.options, changed_options(remedy.changes))
        spec = apply_all_to_request(self.spec, remedy.changes)
        return Case(fleet.runs[0][0], spec, options, fleet.table.known_aggregates)


def filter_case(name, host):
    """The example of the filter in docs/filters.yaml, with this host alone and no other filter."""
    example = _generate.filter_examples()[name]
    columns, at = example["hosts"], example["hosts"]["host"].index(host)
    alone = {key: [value[at]] if isinstance(value, list) else value for key, value in columns.items()}
    (record,) = make_records(**({"resources": ROOMY} | alone))
    plugin = next(each for each in FILTERS if each.__name__ == name)
    groups = {each.name: each.group for each in declared(plugin.Options)} if plugin.Options else {}
    options = {"filter_scheduler": {"enabled_filters": [name]}}
    for option, value in example.get("options", {}).items():
        options.setdefault(groups[option], {})[option] = value
    return Case(record, make_spec(**example["request"]), options)


def case(host=(), request=(), options=(), known=()):
    """A case of one host with room for anything, no filter enabled."""
    (record,) = make_records(**{name: [value] for name, value in ({"resources": ROOMY} | dict(host)).items()})
    sections = {"filter_scheduler": {"enabled_filters": ["AllHostsFilter"]}} | dict(options)
    return Case(record, make_spec(**dict(request)), sections, known)


def check_remedy(found, check):
    """The check alone rejects the host; its remedy, which the explanation prints, makes the request fit there."""
    scheduler = found.scheduler
    explanation = scheduler.explain_host(found.spec, found.host)
    names = [each.name for each in explanation.blockers]
    assert [name for name in names if name != "disabled"] == [check] or check == "disabled"
    reason = next(each.reason for each in explanation.blockers if each.name == check)
    remedy = explanation.remedies[check]
    of_host = printed(host_explanation_report(explanation))
    assert all(each in of_host for each in (check, reason, remedy.text))
    of_request = printed(explanation_report(scheduler.explain(found.spec)))
    assert names[0] in of_request  # the check "disabled" speaks for ComputeFilter, too
    assert remedy.text in of_request
    followed = found.following(remedy)
    assert places(followed.scheduler, followed.spec, found.host)
    if arguments := arguments_for(remedy.changes):
        assert places(tried_out(found, arguments), found.spec, found.host)
    return remedy


def printed(report):
    """The words of a report, whatever its lines."""
    return " ".join(f"{report.lead} {report.rows} {report.caption}".replace("│", " ").split())


def places(scheduler, spec, host):
    return [each.host for each in scheduler.place(spec).selections] == [host]


def tried_out(found, arguments):
    """The scheduler of the case under the arguments that the explanation prints as "Try it"."""
    assert not any("$" in each for each in arguments)
    parsed = PARSER.parse_args(shlex.split(" ".join(arguments)))
    fleet = what_if_fleet(parsed, found.fleet)
    return Scheduler(fleet, merged(found.options, what_if_options(parsed, fleet)))
