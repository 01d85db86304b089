# SPDX-License-Identifier: Apache-2.0
"""D44: for every table of the schema the page on the database says what bounds its rows, and that exists."""

import re

import pytest

from docs import _commands
from roost.api.routes import ROUTES
from roost.cli.main import Roost
from roost.options.declare import declared
from roost.scheduler.all_options import option_owners
from roost.store.schema import metadata

PAGE = (_commands.ROOT / "docs/how-to/database.md").read_text(encoding="utf-8")
(SECTION,) = re.findall(r"^## How large the tables become\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
OPTIONS = {each.name for owner in option_owners() for each in declared(owner) if each.group == "roost"}
BOUNDS = {
    name: bound
    for names, bound in re.findall(r"^\| (`[^|]*) \| (.*) \|$", SECTION, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
}
OWN_WORDS = {
    "heartbeat_probes": "one row",
    "changes": "the last million",
    "guest_allocations": "one for a consumer and node",
}
"""What bounds tables by the code that writes them."""


def test_every_table_has_an_entry_and_every_entry_a_table():
    assert sorted(BOUNDS) == sorted(metadata.tables)


@pytest.mark.parametrize("name", sorted(metadata.tables))
def test_what_bounds_a_table_exists(name):
    """An option, a parent with which rows are deleted, a deed of a person; or the code says so."""
    bound = BOUNDS[name]
    parents = set(re.findall(r"goes with `(\w+)`", bound))
    cascading = {each.column.table.name for each in metadata.tables[name].foreign_keys if each.ondelete == "CASCADE"}
    assert parents <= cascading
    options = set(re.findall(r"`([a-z_]+)`", bound)) - parents
    assert options <= OPTIONS
    commands = re.findall(r"`roost ([a-z -]+)`", bound)
    for command in commands:
        Roost().command_manager.find_command(command.split())
    deletions = re.findall(r"`DELETE ([^`]+)`", bound)
    assert {re.sub(r"\{\w+\}", "{}", each) for each in deletions} <= DELETED
    assert parents or options or commands or deletions or bound.startswith(OWN_WORDS[name])


DELETED = {re.sub(r"\{\w+\}", "{}", each.path) for each in ROUTES if each.method == "DELETE"}
