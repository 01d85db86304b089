# SPDX-License-Identifier: Apache-2.0
"""`roost explain`: why a request fits where it does, or nowhere; or why it does not go to one host."""

from __future__ import annotations

import argparse

from roost.cli.arguments import add_config_arguments
from roost.cli.explanation_arguments import add_explanation_arguments, check_explanation_arguments
from roost.cli.explanation_report import explanation_report
from roost.cli.host_explanation_report import host_explanation_report
from roost.cli.inspected_fleet import add_fleet_arguments, load_fleet, make_scheduler
from roost.cli.output import Report, ReportCommand
from roost.cli.request_arguments import add_request_arguments, build_request
from roost.cli.size_arguments import check_size
from roost.cli.what_if_arguments import add_what_if_arguments


class Explain(ReportCommand):
    """Say why a request fits on some hosts, or on none, and what would help. Places nothing.

    The exit code is 0 if the request fits - with --host, if that host can take it - and 1 if not.
    """

    columns = None  # those of the explanation

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the fleet, the arguments that describe the request, and what is to be explained."""
        add_fleet_arguments(parser)
        add_explanation_arguments(parser)
        add_request_arguments(parser)
        add_config_arguments(parser.add_argument_group("scheduler"))
        add_what_if_arguments(parser.add_argument_group("what if"))

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The explanation, and exit code 0 if the request fits, else 1."""
        check_size(parsed_args)  # before a live cloud is asked for its fleet
        check_explanation_arguments(parsed_args)
        fleet = load_fleet(parsed_args, getattr(self.app_args, "quiet", False))
        scheduler = make_scheduler(fleet, parsed_args)
        spec = build_request(parsed_args, fleet, scheduler)
        if parsed_args.host:
            about_host = scheduler.explain_host(spec, parsed_args.host, parsed_args.node)
            return host_explanation_report(about_host), 0 if about_host.own else 1
        explanation = scheduler.explain(spec)
        return explanation_report(explanation, parsed_args.long), 0 if explanation.fits else 1
