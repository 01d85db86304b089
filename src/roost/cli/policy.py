# SPDX-License-Identifier: Apache-2.0
"""`roost policy sample`: all rules of the API with their defaults, as a policy.yaml."""

from __future__ import annotations

import argparse
import sys

from roost.api.policy_rules import RULES, Rule
from roost.cli.output import Report, ReportCommand

COLUMNS = {"Rule": "name", "Default": "check", "Scopes": "scopes", "Requests": "operations"}


class PolicySample(ReportCommand):
    """Print a policy.yaml that has every rule of the API, explained and commented out."""

    columns = COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the file; with -f or -c, the rules as data instead. Returns exit code 0."""
        if parsed_args.format != "table" or parsed_args.column:
            return super().take_action(parsed_args)
        sys.stdout.write("\n".join(map(_as_lines, RULES)))
        return 0

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each rule; exit code 0."""
        rows = [(rule.name, rule.check, " ".join(rule.scopes), ", ".join(rule.operations)) for rule in RULES]
        records = [
            rule._asdict() | {"operations": list(rule.operations), "scopes": list(rule.scopes)} for rule in RULES
        ]
        return Report(records, tuple(COLUMNS), rows), 0


def _as_lines(rule: Rule) -> str:
    scopes = [f"Intended scope(s): {', '.join(rule.scopes)}"] if rule.scopes else []
    comments = (rule.description, *rule.operations, *scopes)
    return "".join(f"# {each}\n" for each in comments) + f'#"{rule.name}": "{rule.check}"\n'
