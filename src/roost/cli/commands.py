# SPDX-License-Identifier: Apache-2.0
"""All commands of `roost`, by the module that has them, with what the list of commands says of each; their base.

A module is loaded only when one of its commands runs, so the list repeats the first lines of their docstrings. The
class of a command has its name: `ServerGroupCreate` for `server-group create`.
"""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from cliff.command import Command
from cliff.commandmanager import CommandManager

from roost.errors import BadInput, nearest

SUMMARIES = {
    "aggregate": {
        "aggregate add host": "Add a host to an aggregate",
        "aggregate create": "Make an aggregate without hosts",
        "aggregate delete": "Delete aggregates that have no hosts",
        "aggregate list": "List aggregates",
        "aggregate remove host": "Remove a host from an aggregate; its servers stay",
        "aggregate set": "Change the name, the zone or metadata of an aggregate",
        "aggregate show": "Show an aggregate with its hosts and metadata",
        "aggregate unset": "Remove metadata from an aggregate",
    },
    "capacity": {
        "capacity": "Say how many more servers fit on a fleet, where, and what runs out first. Places nothing",
    },
    "cloud": {
        "cloud check": "Try all that a scheduler in a nova cloud needs, read-only: databases, placement, "
        "broker, filters, hosts",
        "shadow report": "Sum up a file that shadow mode wrote: how often both schedulers agreed, where not "
        "and why, and their times",
    },
    "cluster": {
        "cluster restart": "Stop processes of the cluster, start them again, and wait until they are ready",
        "cluster start": "Start a cloud on this machine: PostgreSQL, RabbitMQ, conductors, schedulers, agents, "
        "an API; a process each",
        "cluster status": "Show the processes of the cluster: which run, since when, and whether they are ready",
        "cluster stop": "Stop all processes of the cluster: APIs and agents first, the database last. Data "
        "stay for the next start",
    },
    "config": {
        "config check": "Say what Roost understands in config files, what has a new name, what changes "
        "nothing, and what is wrong",
        "config sample": "Print a config file that has every option, explained and commented out",
        "config show": "Show every option with its value and where that comes from; those that are set come first",
        "policy sample": "Print a policy.yaml that has every rule of the API, explained and commented out",
    },
    "decision": {
        "decision list": "List decisions of the schedulers, the latest first",
        "decision show": "Show a decision as it was recorded: hosts left out by each step, scores, choices",
        "decision why": "Say why a decision came out as it did, from the state of all hosts at that moment",
    },
    "dev": {
        "dev": "Run a whole cloud in this process: conductor, scheduler and a fleet of fake hosts, until Ctrl-C",
    },
    "explain": {
        "explain": "Say why a request fits on some hosts, or on none, and what would help. Places nothing",
    },
    "flavor": {
        "flavor create": "Make a flavor",
        "flavor delete": "Delete flavors; servers that have them keep their size",
        "flavor list": "List flavors, the sizes of servers",
        "flavor set": "Set the description and extra specs of a flavor; servers that have it stay as they are",
        "flavor show": "Show a flavor with its extra specs",
        "flavor unset": "Remove extra specs from a flavor",
    },
    "fleet": {
        "fleet export": "Write what the database or a snapshot knows as a fleet file: YAML, or JSON if its "
        "name ends in .json",
        "fleet import": "Bring a fleet file into the database; what is equal there is left alone, and what "
        "the file does not name",
        "snapshot save": "Save the fleet, the scheduler's options and the servers of a cloud as one file, "
        "which --from reads",
    },
    "fleet_schema": {
        "fleet schema": "Print the JSON schema of a fleet file, for editors and checks",
    },
    "host": {
        "host disable": "Let no further servers come to hosts; those that are there stay",
        "host enable": "Let servers come to hosts again; hosts that were forced down are what their heartbeats say",
        "host list": "List hosts: whether they are up and enabled, and how full they are",
        "host show": "Show all that is known of a host",
    },
    "image": {
        "image create": "Make an image",
        "image delete": "Delete images; servers that were built of them stay",
        "image list": "List images, from which servers boot",
        "image set": "Change an image; servers that were built of it stay as they are",
        "image show": "Show an image with its properties",
    },
    "ledger": {
        "db check": "Say whether the tables and this version of Roost agree; services ask the same before they start",
        "db upgrade": "Make the tables, or bring them up to date; those that are up to date are left alone",
        "db version": "Show the revision that the database has, and the one that this version of Roost needs",
        "ledger audit": "Compare allocations with servers and nodes: leaks, wrong sums, overfull hosts, "
        "broken groups",
    },
    "main": {
        "complete": "Print a script that completes commands and options in bash",
        "help": "Explain a command and its arguments",
    },
    "people": {
        "project create": "Make a project",
        "project delete": "Delete a project with the roles and tokens in it. Its servers stay",
        "project list": "List projects",
        "token create": "Make a token with which a script calls the API as a user; it is shown this once",
        "token list": "List tokens that are valid, those of one user or all",
        "token revoke": "End a token: it is refused from now on",
        "user create": "Make a user with a role in a project, or in the system",
        "user delete": "Delete a user with its roles, tokens and application credentials. Its servers stay",
        "user list": "List users with their roles",
        "user set": "Change a user: its password, its role in a project, or whether it may sign in",
        "user show": "Show a user with its roles",
    },
    "place": {
        "place": "Choose hosts for new instances on a fleet, and show how they were chosen",
        "plan": "Place a file of requests on a copy of a cloud, each with what the earlier ones took. "
        "Nothing is changed",
    },
    "server": {
        "server confirm": "Confirm a resize or a migration: what the servers hold on their former hosts is released",
        "server create": "Boot servers: they are placed together, all or none, then built; ends when they are "
        "ACTIVE or ERROR",
        "server delete": "Delete servers; what they hold is released",
        "server evacuate": "Rebuild servers whose hosts are down on other hosts",
        "server list": "List servers that are not deleted",
        "server migrate": "Move servers to other hosts: stopped meanwhile, to be confirmed or reverted; or "
        "live, with --live",
        "server rebuild": "Build servers anew where they are, from the same image or another",
        "server resize": "Give servers another flavor, mostly on another host; then they are VERIFY_RESIZE: "
        "confirm or revert",
        "server revert": "Take back a resize or a migration: the servers return to their former hosts and flavors",
        "server shelve": "Take servers off their hosts, and keep them for later; what they hold is released",
        "server show": "Show all that is known of a server: state, host, fault, failed attempts, migrations",
        "server start": "Start stopped servers",
        "server stop": "Stop servers; they keep their hosts and what they hold there",
        "server unshelve": "Bring shelved servers back, on hosts that are chosen anew",
    },
    "server_group": {
        "server-group create": "Make a server group of the project; new servers join it by `server create --group`",
        "server-group delete": "Delete server groups; their members stay where they are",
        "server-group list": "List the server groups of the project",
        "server-group show": "Show a server group with its members",
    },
    "service": {
        "service api": "Run the API: Compute v2.1 and what its clients need beside it, until SIGTERM",
        "service compute": "Run the agent of a host: it reports what the host has, builds, moves and deletes "
        "servers, until SIGTERM",
        "service conductor": "Run a conductor: it takes requests of clients, has servers built, moved and deleted, "
        "until SIGTERM",
        "service scheduler": "Run a scheduler: it takes requests from the queue, chooses hosts and claims them, "
        "until SIGTERM",
    },
}


class Entry(NamedTuple):
    """A command that is not loaded yet: its module, its class, and the first line of its description."""

    module: str
    name: str
    summary: str

    def load(self) -> Any:
        """The class of the command."""
        return getattr(import_module(f"roost.cli.{self.module}"), self.name)


COMMANDS = {
    name: Entry(module, "".join(word.title() for word in re.split("[ -]", name)), summary)
    for module, commands in SUMMARIES.items()
    for name, summary in commands.items()
}


class Commands(CommandManager):
    """Finds a command by the words that begin a command line."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: dict[str, Any] = dict(COMMANDS)

    def add_command(self, name: str, command_class: Any) -> None:
        """Add a command; cliff's own `help` and `complete` do not replace those of the table."""
        if name not in COMMANDS:
            super().add_command(name, command_class)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises BadInput instead of exiting. Options cannot be abbreviated."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", _Formatter)
        super().__init__(allow_abbrev=False, **settings)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The parsed arguments. Raises BadInput, with the nearest option as its hint, for the first unknown one."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            option = unknown[0].partition("=")[0]
            raise BadInput(f"unknown argument {unknown[0]}", self._nearest_option(option) or self._see_help())
        return parsed

    def _nearest_option(self, option: str) -> str:
        """A hint that names the option that is meant: one with all its words, or else a similar one; or empty."""
        if not option.startswith("-"):
            return ""
        words, known = _words(option), list(self._option_string_actions)
        having = (each for each in known if each.startswith("--") and words <= _words(each))
        if option.startswith("--") and (full := next(having, "")):
            return f"did you mean {full}?"
        hint = nearest(option, known)
        return hint if "did you mean" in hint else ""

    def error(self, message: str) -> NoReturn:
        """Raise BadInput with a message of argparse, which calls this for every invalid argument."""
        raise BadInput(message.removeprefix("argument "), self._see_help())

    def _see_help(self) -> str:
        return f"see {self.prog} --help"


def _words(option: str) -> set[str]:
    return set(option.strip("-").split("-"))


class _Formatter(argparse.HelpFormatter):
    """A help formatter whose first column fits the longest option."""

    def __init__(self, prog: str, **settings: Any) -> None:
        super().__init__(prog, max_help_position=30, **settings)


class RoostCommand(Command):
    """Base class of all commands: a cliff command whose errors are BadInput."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """A parser that knows only --help; commands extend it."""
        return Parser(prog=prog_name, description=self.get_description())
