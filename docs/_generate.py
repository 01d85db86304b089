# SPDX-License-Identifier: Apache-2.0
"""Generates the reference pages from the code, at every build of the docs.

`PAGES` maps the name of each page to the function that returns its Markdown.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.metadata
import inspect
import pkgutil
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from docs._api_page import api_page
from docs._command_page import command_page
from docs._markdown import code, join, page, summary, table, yes
from sphinx.pycode import ModuleAnalyzer

import roost
import roost.cli.main as command_frame
from roost.errors import RoostError
from roost.filters.base import Filter, applies_to_rebuild
from roost.hosts import Hosts, HostTable, HostView
from roost.model import Aggregate, Flavor, Image, ServerGroup
from roost.model.decision import Decision
from roost.options.declare import Declared, declared
from roost.options.names import UNUSED
from roost.plugins.registry import FILTERS, WEIGHERS
from roost.records.server import TASK_STATES, VM_STATES
from roost.records.server_steps import LIFE_CYCLE, WORK, Transition, Work
from roost.scheduler.all_options import option_owners
from roost.scheduler.options import DEFAULT_FILTERS
from roost.services.metric_definitions import METRIC_DEFINITIONS, Label, MetricDefinition
from roost.sources.fields import fleet_schema
from roost.weighers.base import Weigher

EXAMPLES = Path(__file__).with_name("filters.yaml")
TYPES = {int: "integer", float: "number", bool: "true or false", str: "text"}


def write_reference(folder: Path) -> None:
    """Write all pages into a folder; unchanged files are not touched."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        text = make()
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# --- filters and weighers -------------------------------------------------------------------------


def filters_page() -> str:
    overview = [(f"[{each.__name__}](#{each.__name__.lower()})", summary(each)) for each in FILTERS]
    return page(
        "Filters",
        "A filter decides for each host whether it remains a candidate. "
        f"Enabled by default: {', '.join(code(name) for name in DEFAULT_FILTERS)}; the option "
        "[`enabled_filters`](options.md) changes that.",
        table(("filter", "what it does"), overview),
        *(filter_section(each) for each in FILTERS),
    )


def filter_section(plugin: type[Filter]) -> str:
    rule = plugin()
    facts = {
        "Reads": columns_read(plugin),
        "Once per request": yes(plugin.run_filter_once_per_request)
        + (": not run again for further instances of a request" * plugin.run_filter_once_per_request),
        "On rebuild": yes(applies_to_rebuild(rule)),
        "Sets limits": yes(plugin.ceilings is not Filter.ceilings),
        "Source": code(source_of(plugin)),
    }
    return join(section(plugin, facts), example_of(plugin.__name__))


def example_of(name: str) -> str:
    """The example of a filter in docs/filters.yaml: the request, then a table of hosts with columns and answer."""
    example = filter_examples().get(name)
    if example is None:
        return ""
    names, columns = example["hosts"]["host"], {k: v for k, v in example["hosts"].items() if k != "host"}
    rows = [
        (
            code(host),
            *(code(flow(each[at] if isinstance(each, list) else each)) for each in columns.values()),
            f"fails: {example['fails'][host]}" if host in example["fails"] else "passes",
            example.get("remedies", {}).get(host, ""),
        )
        for at, host in enumerate(names)
    ]
    request = f"the request {code(flow(example['request']))}" if example["request"] else "any request"
    options = f" and the options {code(flow(example['options']))}" if example.get("options") else ""
    return join(f"Example, with {request}{options}:", table(("host", *map(code, columns), "answer", "remedy"), rows))


@functools.cache
def filter_examples() -> dict[str, Any]:
    return yaml.safe_load(EXAMPLES.read_text(encoding="utf-8"))


def flow(value: Any) -> str:
    """A value as YAML on one line."""
    written = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=float("inf"))
    return written.removesuffix("...\n").strip()


def weighers_page() -> str:
    overview = [(f"[{each.__name__}](#{each.__name__.lower()})", summary(each)) for each in WEIGHERS]
    return page(
        "Weighers",
        "A weigher gives each host that passed the filters a raw number. The numbers are clamped to the bounds, "
        "min-max normalised to 0 to 1, multiplied and added up; the highest sum wins. "
        "The option [`weight_classes`](options.md) selects the weighers.",
        table(("weigher", "raw number"), overview),
        *(weigher_section(each) for each in WEIGHERS),
    )


def weigher_section(plugin: type[Weigher]) -> str:
    facts = {
        "Reads": columns_read(plugin),
        "Bounds": f"from {bound(plugin.minval, 'the smallest')} to {bound(plugin.maxval, 'the largest number')}",
        "Multiplier": code(plugin.multiplier_option) if plugin.multiplier_option else "1.0",
        "Aggregate metadata that overrides it": code(plugin.aggregate_key) if plugin.aggregate_key else "none",
        "Source": code(source_of(plugin)),
    }
    return section(plugin, facts)


def section(plugin: type[Filter] | type[Weigher], facts: dict[str, str]) -> str:
    options = declared(plugin.Options) if plugin.Options else ()
    return join(
        f"## {plugin.__name__}",
        inspect.getdoc(plugin) or "",
        "\n".join(f"- {name}: {fact}" for name, fact in facts.items()),
        option_table(options) if options else "It has no options.",
    )


def columns_read(plugin: type[Filter] | type[Weigher]) -> str:
    """The columns that a plugin reads, each with its meaning if it is documented."""
    meanings = {name: column.meaning for name, column in vars(Hosts).items() if hasattr(column, "meaning")}
    named = [f"{code(name)} ({meanings[name]})" if name in meanings else code(name) for name in sorted(plugin.reads)]
    return ", ".join(named) or "no column"


def bound(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:g}"


# --- options --------------------------------------------------------------------------------------


def options_page() -> str:
    options, owner_of = {}, {}
    for owner, kind in owners():
        for each in declared(kind):
            options[each.group, each.name] = each
            owner_of.setdefault((each.group, each.name), []).append(owner)
    parts, ignored = [], []
    for section_name in sorted({group for group, _ in options}):  # capitals first: DEFAULT
        mine = [options[key] for key in sorted(options) if key[0] == section_name]
        parts.append(join(f"## [{section_name}]", option_table(mine, owner_of)))
    for section_name, names in UNUSED.items():
        unused = sorted(each for each in names if (section_name, each) not in options)
        ignored.append(join(f"In `[{section_name}]`:", ", ".join(code(each) for each in unused)))
    return page(
        "Options",
        "Sections and names are nova's. Precedence: `Scheduler(options=...)`, the environment, the config files "
        "(the last one first), the `options` of the fleet file, the default. Deprecated names are accepted; the new "
        "name wins. An unknown name is an error whose hint names the nearest one, except in `[DEFAULT]` of a config "
        "file, which other services share: there only typos are errors. A fleet file may not name code, addresses or "
        "files: the last column.",
        *parts,
        "## Accepted and not used",
        "Roost accepts these options of nova. They have no effect.",
        *ignored,
    )


def owners() -> list[tuple[str, type]]:
    """(owner, class) of all classes that declare options; the owner is a plugin or a part of Roost."""
    plugins = [(each.__name__, each.Options) for each in (*FILTERS, *WEIGHERS) if each.Options]
    of_plugins = {owner for _, owner in plugins}
    parts = [each for each in option_owners() if each not in of_plugins]
    return [(part.__name__.removesuffix("Options").lower(), part) for part in parts] + plugins


def option_table(options: Iterable[Declared], owner_of: dict[tuple[str, str], list[str]] | None = None) -> str:
    head = ("option", "type", "default", "meaning", "old names")
    rows = [
        (
            code(each.name) if owner_of else code(f"[{each.group}] {each.name}"),
            option_type(each),
            default_value(each.default),
            each.help,
            ", ".join(code(f"[{group}] {name}") for group, name in each.old) or "-",
        )
        for each in options
    ]
    if owner_of is not None:
        head = (*head, "belongs to", "in a fleet file")
        rows = [
            (*row, ", ".join(owner_of[each.group, each.name]), fleet_word(each))
            for row, each in zip(rows, options, strict=True)
        ]
    return table(head, rows)


def fleet_word(option: Declared) -> str:
    """Whether a fleet file may set the option."""
    if callable(option.in_fleet):
        return "names of built-in and installed plugins"
    return "yes" if option.may_be_in_fleet(option.default) else "no"


def option_type(option: Declared) -> str:
    kind = TYPES.get(option.kind, "text")
    if option.kind == tuple[str, ...]:
        kind = "list; repeat the line" if option.repeats else "list, separated by commas"
    if option.choices:
        return "one of " + ", ".join(code(each) for each in option.choices)
    bounds = [f"at least {option.min:g}"] if option.min is not None else []
    bounds += [f"at most {option.max:g}"] if option.max is not None else []
    return ", ".join([kind, *bounds])


def default_value(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, tuple):
        return ", ".join(code(each) for each in value) or "empty"
    return code(str(value).lower() if isinstance(value, bool) else str(value))


# --- the fleet file -------------------------------------------------------------------------------


def fleet_file_page() -> str:
    schema = fleet_schema()["properties"]
    kinds = {"aggregates": Aggregate, "flavors": Flavor, "images": Image, "server_groups": ServerGroup}
    host = schema["hosts"]["items"]
    return page(
        "The fleet file",
        "YAML or JSON (by its name: `.json`). Six sections, none of them required: "
        f"{', '.join(code(name) for name in schema)}. A field that is not listed here is an error that names the "
        "file, the line and the field. `roost fleet schema` prints the JSON schema, for editors.",
        join("## hosts", field_table(host["properties"], host["required"])),
        *(record_section(name, kind, schema[name]["items"]) for name, kind in kinds.items()),
        join("## options", "Section, then option: value. See [the options](options.md)."),
    )


def record_section(name: str, kind: type, schema: dict[str, Any]) -> str:
    notes = attribute_notes(kind)
    properties = {each: {"description": notes.get(each, ""), **rest} for each, rest in schema["properties"].items()}
    return join(f"## {name}", inspect.getdoc(kind) or "", field_table(properties, schema["required"]))


def field_table(properties: dict[str, Any], required: Sequence[str]) -> str:
    rows = [
        (code(name) + (" (required)" if name in required else ""), json_type(schema), schema.get("description", ""))
        for name, schema in properties.items()
    ]
    return table(("field", "value", "meaning"), rows)


def json_type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(code("null" if each is None else each) for each in schema["enum"])
    kinds = schema.get("type", "any")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    words = {"array": "list", "object": "mapping", "string": "text", "boolean": "true or false"}
    least = f", at least {schema['minimum']}" if "minimum" in schema else ""
    return " or ".join(words.get(each, each) for each in kinds) + least


def attribute_notes(kind: type) -> dict[str, str]:
    """Field -> its docstring in the source of a dataclass."""
    notes = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
    return {name: " ".join(lines).strip() for (owner, name), lines in notes.items() if owner == kind.__name__}


# --- errors ---------------------------------------------------------------------------------------


def errors_page() -> str:
    import_all()
    rows = [
        (f"{'&emsp;' * depth}{code(each.__name__)}", code(each.code), str(exit_code(each)), summary(each))
        for depth, each in tree(RoostError)
    ]
    return page(
        "Errors",
        "All exceptions that Roost raises deliberately, as a tree of classes. "
        "`code` is a stable identifier for programs. The last number is the exit code of the command.",
        table(("error", "code", "exit", "meaning"), rows),
        "Each error also has a `hint`: one sentence on what to do, which may be empty. "
        "`NoValidHost.decision` is [the decision](../../tutorial/first-placement.md).",
    )


def import_all() -> None:
    """Import all modules of Roost, so that all subclasses of RoostError are known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the former names of rooms
        for module in pkgutil.walk_packages(roost.__path__, "roost."):
            if not module.name.startswith(("roost.__main__", "roost.testing")):
                importlib.import_module(module.name)


def tree(kind: type[RoostError], depth: int = 0) -> Iterable[tuple[int, type[RoostError]]]:
    yield depth, kind
    for each in sorted(kind.__subclasses__(), key=lambda each: each.__name__):
        yield from tree(each, depth + 1)


def exit_code(kind: type[RoostError]) -> int:
    """The exit code of the command for an error of this class."""
    error = kind.__new__(kind)
    RoostError.__init__(error, "")
    return command_frame._exit_code(error)


# --- Python: records that plugins read ------------------------------------------------------------


def records_page() -> str:
    host = [(code(name), column.meaning) for name, column in vars(Hosts).items() if hasattr(column, "meaning")]
    host += [(code(name), summary(each)) for name, each in vars(HostView).items() if isinstance(each, property)]
    host += [
        (code(f"{name}()"), summary(each))
        for name, each in vars(HostView).items()
        if inspect.isfunction(each) and not name.startswith("_")
    ]
    also = sorted(set(HostTable.of([]).encoded) - set(vars(HostView)))
    notes = attribute_notes(Decision)
    decision = [(code(each.name), notes.get(each.name, "")) for each in dataclasses.fields(Decision)]
    decision += [(code(name), summary(each)) for name, each in vars(Decision).items() if isinstance(each, property)]
    return page(
        "Records for plugins and programs",
        join(
            "## A host (`host_state`)",
            "The names are those of nova's HostState. In a `Filter` or `Weigher` the numbers are arrays, one entry "
            "per candidate host; in a `HostFilter` or `HostWeigher` they are Python numbers.",
            table(("name", "meaning"), host),
            f"Also, as the source gave them: {', '.join(code(name) for name in also)}.",
        ),
        join("## A decision", inspect.getdoc(Decision) or "", table(("name", "meaning"), decision)),
    )


# --- metrics --------------------------------------------------------------------------------------


def metrics_page() -> str:
    rows = [(code(each.name), each.kind, labels_of(each), each.meaning) for each in METRIC_DEFINITIONS]
    histograms = [
        (code(each.name), ", ".join(f"{bound:g}" for bound in each.buckets))
        for each in METRIC_DEFINITIONS
        if each.buckets
    ]
    return page(
        "Metrics",
        "Metrics of a service under `/metrics`, in the text format of Prometheus. Times are in seconds. No label "
        "names a host, a server or a project. [Watch the service](../../how-to/monitoring.md) says which to watch.",
        table(("metric", "kind", "labels", "meaning"), rows),
        "What several workers counted is added up, and stays when one of them ends. How their gauges become one is "
        "said above.",
        join("## Buckets", table(("histogram", "upper bounds"), histograms)),
    )


def labels_of(metric: MetricDefinition) -> str:
    return "; ".join(label_values(each) for each in metric.labels) or "-"


def label_values(label: Label) -> str:
    return code(label.name) + (f": {', '.join(code(each) for each in label.values)}" if label.values else "")


def source_of(kind: type) -> str:
    return f"src/{kind.__module__.replace('.', '/')}.py"


# --- servers --------------------------------------------------------------------------------------


def servers_page() -> str:
    """The life cycle of a server, and who goes on with its tasks."""
    return page(
        "Servers",
        "What a server is (`vm_state`) and what is being done to it (`task_state`) change by these steps only; any "
        "other change is refused. [The life of a server](../../explanation/the-life-of-a-server.md) tells the story.",
        table(("step", "from vm_state", "from task_state", "to vm_state", "to task_state"), map(step_row, STEPS)),
        "## Tasks",
        "Who goes on with a task, by which message, and what a conductor does if that host is down.",
        table(("task_state", "a host is chosen", "who", "message", "if the host is down"), map(work_row, WORK)),
    )


STEPS = tuple(LIFE_CYCLE.values())


def step_row(step: Transition) -> tuple[str, ...]:
    tasks = (
        "any" if len(step.task_states) > len(TASK_STATES) else ", ".join(each or "none" for each in step.task_states)
    )
    states = "any" if len(step.vm_states) == len(VM_STATES) - 1 else ", ".join(step.vm_states)
    return step.name, states, tasks, step.vm_state or "the same", step.task_state or "none"


def work_row(work: Work) -> tuple[str, ...]:
    chosen = "" if work.has_target is None else yes(work.has_target)
    return work.task_state, chosen, work.receiver, code(work.method), work.if_down or ""


PAGES = {
    "filters.md": filters_page,
    "weighers.md": weighers_page,
    "options.md": options_page,
    "command.md": command_page,
    "api.md": api_page,
    "fleet-file.md": fleet_file_page,
    "errors.md": errors_page,
    "records.md": records_page,
    "metrics.md": metrics_page,
    "servers.md": servers_page,
}
