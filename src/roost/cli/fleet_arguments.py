# SPDX-License-Identifier: Apache-2.0
"""The fleet that a command looks at without changing it: a fleet file, a snapshot, or the live cloud.

The live cloud is fetched as a snapshot, so whatever a command answers about it can be asked again on another machine.
A command that also has the arguments that ask "what if" - other hosts, options, filters, weighers - sees the fleet as
they change it.
"""

from __future__ import annotations

import argparse
import binascii
import shlex
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from roost.cli.arguments import (
    add_cloud_argument,
    add_snapshot_argument,
    config_files,
    key_and_value,
    non_empty,
    whole_number,
)
from roost.cli.client_command import Progress, opened_client
from roost.client.interface import CommandClient
from roost.clock import SystemClock
from roost.errors import BadInput, MessageError, RpcUnreachable, UnknownName, nearest
from roost.library import Scheduler
from roost.model.remedy import AggregateChange, Change, HostChange, OptionChange
from roost.options.declare import declared
from roost.options.files import LocatedSections
from roost.options.settings import Settings
from roost.plugins.registry import find_weighers, places_of
from roost.questions.what_if import changed_fleet, changed_options, check_known_hosts, with_hosts_like
from roost.scheduler.all_options import read_options
from roost.scheduler.build import filters_to_run
from roost.scheduler.full_scan import FullScanEngine
from roost.scheduler.options import NOVA, CloudOptions, SchedulerOptions
from roost.scheduler.pipeline import MakeEngine
from roost.sources.documents import parse_yaml
from roost.sources.fields import HOST_FIELDS
from roost.sources.fleet_file import MAX_HOSTS, Fleet, expand_name
from roost.sources.snapshot import Snapshot
from roost.weighers.base import Weigher

Options = dict[str, dict[str, Any]]
"""Section -> option -> value."""


class Assignment(NamedTuple):
    """TARGET=VALUE of an argument; the value is text."""

    argument: str
    target: str
    text: str

    @property
    def value(self) -> Any:
        """The value, read as YAML: a number, a text, true, [a, list], {a: mapping}. FleetError if it cannot be."""
        return parse_yaml(self.text, Path(f"{self.argument} {self.target}"))[0]


def add_what_if_arguments(parser: Any) -> None:
    """Add --set and the others to a parser or to an argument group."""
    parser.add_argument(
        "--set",
        **_repeatable(_assignment("--set", "HOST.FIELD")),
        metavar="HOST.FIELD=VALUE",
        help="a host's field as if the fleet file said so, such as node-[001-010].service.disabled=false; repeatable",
    )
    parser.add_argument(
        "--set-aggregate",
        **_repeatable(_assignment("--set-aggregate", "NAME.KEY")),
        metavar="NAME.KEY=TEXT",
        help="metadata of an aggregate, such as its availability_zone; null takes it out; repeatable",
    )
    parser.add_argument(
        "--set-option",
        **_repeatable(_assignment("--set-option", "SECTION.NAME")),
        metavar="SECTION.NAME=VALUE",
        help="an option that a fleet file may set, such as filter_scheduler.max_io_ops_per_host=9; repeatable",
    )
    parser.add_argument(
        "--without-filter", **_repeatable(non_empty), metavar="NAME", help="do not run this filter; repeatable"
    )
    parser.add_argument(
        "--weigher",
        **_repeatable(key_and_value),
        metavar="NAME=MULTIPLIER",
        help="multiplier of an enabled weigher, such as RAMWeigher=-1; repeatable",
    )
    parser.add_argument(
        "--down", **_repeatable(non_empty), metavar="HOST", help="the service of this host is down; repeatable"
    )
    parser.add_argument(
        "--add-hosts",
        type=whole_number(least=1, most=MAX_HOSTS),
        metavar="N",
        help="so many more hosts, empty, like that of --like",
    )
    parser.add_argument("--like", type=non_empty, metavar="HOST", help="the host that --add-hosts copies")


def arguments_for(changes: Iterable[Change]) -> list[str]:
    """The arguments that try these changes out, quoted for a shell; empty where one is a change of the request."""
    found = []
    for each in changes:
        if isinstance(each, HostChange):
            found.append(("--set", f"{each.host}.{each.field}={_as_yaml(each.value)}"))
        elif isinstance(each, AggregateChange):
            text = "null" if each.value is None else each.value
            found.append(("--set-aggregate", f"{each.aggregate}.{each.key}={text}"))
        elif isinstance(each, OptionChange):
            found.append(("--set-option", f"{each.section}.{each.name}={_as_yaml(each.value)}"))
        else:
            return []
    return [f"{argument} {shlex.quote(text)}" for argument, text in found]


def _as_yaml(value: Any) -> str:
    """A value as YAML on one line."""
    written: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=float("inf"))
    return written.removesuffix("...\n").strip()


def _repeatable(kind: Any) -> dict[str, Any]:
    return {"type": kind, "action": "append", "default": []}


def _assignment(argument: str, target: str) -> Any:
    """A converter for `type=`: TARGET=VALUE, of which the target has a dot."""

    def parse(text: str) -> Assignment:
        left, equals, value = text.partition("=")
        if not equals or "." not in left.strip("."):
            raise argparse.ArgumentTypeError(f"{text[:60]!r} is not {target}=VALUE")
        return Assignment(argument, left, value)

    return parse


def what_if_fleet(parsed_args: argparse.Namespace, fleet: Fleet) -> Fleet:
    """The fleet with what the arguments change of hosts and aggregates; it must have its host records.

    Raises BadInput for an unknown host, field or aggregate, and for a value that does not fit. Commands without these
    arguments get the fleet as it is.
    """
    if not hasattr(parsed_args, "add_hosts"):
        return fleet
    if (parsed_args.add_hosts is None) != (parsed_args.like is None):
        raise BadInput("--add-hosts and --like go together", "as in --add-hosts 10 --like node-001")
    if parsed_args.add_hosts is not None:
        fleet = with_hosts_like(fleet, parsed_args.like, parsed_args.add_hosts)
    names = {name for pair in fleet.table.names for name in pair} if parsed_args.set else set()
    changes = [change for each in parsed_args.set for change in _host_changes(each, names, fleet)]
    check_known_hosts(parsed_args.down, fleet)
    changes += [HostChange(host, "service.up", False) for host in parsed_args.down]
    metadata = [_aggregate_change(each, fleet) for each in parsed_args.set_aggregate]
    return changed_fleet(fleet, [*changes, *metadata])


def what_if_options(parsed_args: argparse.Namespace, fleet: Fleet) -> Options:
    """The options that the arguments set; they win over config files. Raises BadInput for unknown names."""
    if not hasattr(parsed_args, "set_option"):
        return {}
    options = changed_options(map(_option_change, parsed_args.set_option))
    _check_options(options)
    if not (parsed_args.without_filter or parsed_args.weigher):
        return options
    files = config_files(parsed_args)
    settings = read_options(files, fleet.options, options)
    if parsed_args.without_filter:
        own = settings.fill(SchedulerOptions)
        is_special = own.is_for_bare_metal and own.use_baremetal_filters
        name = "baremetal_enabled_filters" if is_special else "enabled_filters"
        options.setdefault("filter_scheduler", {})[name] = _other_filters(parsed_args.without_filter, settings)
    for name, text in parsed_args.weigher:
        weigher = _find_weigher(name, find_weighers(settings.fill(SchedulerOptions).weight_classes, places_of(files)))
        section, option = _multiplier_option(weigher)
        options.setdefault(section, {})[option] = _multiplier(name, text)
    return options


# --- hosts and aggregates -------------------------------------------------------------------------


def _host_changes(given: Assignment, names: set[str], fleet: Fleet) -> Iterator[HostChange]:
    """The change of each host that the target names."""
    pattern, field = _split_target(given.target, names)
    hosts = list(expand_name(pattern, given.argument, len(fleet.table)))
    check_known_hosts((each for each in hosts if each not in names), fleet)
    value = given.value
    return (HostChange(host, field, value) for host in hosts)


def _split_target(target: str, names: set[str]) -> tuple[str, str]:
    """The host or pattern, and the field. Host names may have dots: the longest that is known, or looks like one."""
    dots = [at for at, letter in enumerate(target) if letter == "." and at > target.rfind("]")]
    parts = [(target[:at], target[at + 1 :]) for at in reversed(dots)]
    for pattern, field in parts:
        if pattern in names or ("[" in pattern and next(expand_name(pattern, "--set")) in names):
            return pattern, field
    likely = (each for each in parts if each[1].partition(".")[0] in HOST_FIELDS)
    return next(likely, parts[-1] if parts else (target, ""))


def _aggregate_change(given: Assignment, fleet: Fleet) -> AggregateChange:
    """The change of one metadata value. Names of aggregates and keys may have dots: the longest known name counts."""
    names = {each.name for each in fleet.table.known_aggregates}
    dots = [at for at, letter in enumerate(given.target) if letter == "."]
    parts = [(given.target[:at], given.target[at + 1 :]) for at in reversed(dots)]
    name, key = next((each for each in parts if each[0] in names), parts[-1])
    return AggregateChange(name, key, None if given.text == "null" else given.text)


# --- options --------------------------------------------------------------------------------------


def _option_change(given: Assignment) -> OptionChange:
    section, _, name = given.target.partition(".")
    return OptionChange(section, name, given.value)


def _check_options(options: Options) -> None:
    """Raise OptionError for an option that a fleet file may not set, an unknown one, or a wrong value."""
    if options:
        read_options(fleet=LocatedSections(options, lambda section, name: "--set-option"))


def _other_filters(unwanted: Iterable[str], settings: Settings) -> list[str]:
    """The enabled filters without these."""
    enabled = filters_to_run(settings)
    names = {each.rpartition(".")[2] for each in enabled}
    unwanted = set(unwanted)
    for name in sorted(unwanted - names):
        raise UnknownName(f"--without-filter: {name!r} is not enabled", nearest(name, names))
    return [each for each in enabled if each.rpartition(".")[2] not in unwanted]


def _find_weigher(name: str, enabled: Iterable[type[Weigher]]) -> type[Weigher]:
    by_name = {each.__name__: each for each in enabled}
    if name not in by_name:
        raise UnknownName(f"--weigher: {name!r} is not enabled", nearest(name, by_name))
    return by_name[name]


def _multiplier_option(weigher: type[Weigher]) -> tuple[str, str]:
    """Section and name of the option that holds the multiplier."""
    found = declared(weigher.Options) if weigher.Options and weigher.multiplier_option else ()
    for each in found:
        if each.field == weigher.multiplier_option:
            return each.group, each.name
    raise BadInput(f"--weigher: {weigher.__name__} has no option for its multiplier")


def _multiplier(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"--weigher {name}: {text[:40]!r} is not a number", f"as in {name}=-1.0") from None


LIVE = "the live cloud"


def add_fleet_arguments(parser: Any) -> None:
    """Add --fleet and --from to a parser or to an argument group; without either it is the live cloud."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--fleet", metavar="FILE", help="fleet file, YAML or JSON; - for stdin")
    add_snapshot_argument(source, "the live cloud, as it is now")
    add_cloud_argument(source)


def load_fleet(parsed_args: argparse.Namespace, is_quiet: bool = False) -> Fleet:
    """The fleet that the arguments name, as they change it, with its host records.

    `is_quiet`: no line that says what is waited for.
    """
    return what_if_fleet(parsed_args, _load_fleet(parsed_args, is_quiet))


def _load_fleet(parsed_args: argparse.Namespace, is_quiet: bool) -> Fleet:
    if parsed_args.fleet is not None:
        return Fleet.load(parsed_args.fleet, keeps_records=True)
    if parsed_args.snapshot is not None:
        return Snapshot.load(parsed_args.snapshot).fleet
    try:
        return load_live_snapshot(parsed_args, is_quiet).fleet
    except RpcUnreachable as error:
        raise RpcUnreachable(error.message, f"{error.hint}; or name a file: --fleet FILE, --from SNAPSHOT") from None


def load_live_snapshot(parsed_args: argparse.Namespace, is_quiet: bool = False) -> Snapshot:
    """A snapshot of the cloud that the arguments name, taken now, with a line on a terminal while it is fetched."""
    progress = Progress(is_quiet)
    try:
        progress.show("fetching a snapshot of the cloud")
        if parsed_args.os_cloud is None and (found := _nova_snapshot(config_files(parsed_args))) is not None:
            return found
        with opened_client(parsed_args) as client:
            content = _fetch_snapshot(client)
        return Snapshot.of_bytes(content, LIVE)
    finally:
        progress.stop()


def _nova_snapshot(files: list[Path]) -> Snapshot | None:
    """A snapshot of the nova cloud of these config files; None where they are for a cloud of Roost's own."""
    settings = read_options(files)
    if settings.fill(CloudOptions).cloud != NOVA:
        return None
    from roost.nova.snapshot import take_snapshot  # needs keystoneauth, which is slow to import

    return take_snapshot(settings, files, SystemClock())


def _fetch_snapshot(client: CommandClient) -> bytes:
    """The content of a snapshot file, taken of a live cloud at this moment."""
    try:
        return b64decode(client.get_snapshot()["snapshot"], validate=True)
    except (KeyError, TypeError, binascii.Error):
        raise MessageError("get_snapshot: the answer is no snapshot") from None


def make_scheduler(
    fleet: Fleet, parsed_args: argparse.Namespace, engine: MakeEngine = FullScanEngine, seed: int | None = None
) -> Scheduler:
    """A scheduler on the fleet, with the options of the fleet and of the config files that the arguments name."""
    options = what_if_options(parsed_args, fleet)
    return Scheduler(fleet, options, seed=seed, config_files=config_files(parsed_args), engine=engine)
