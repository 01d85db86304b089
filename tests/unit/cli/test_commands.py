# SPDX-License-Identifier: Apache-2.0
"""The table of commands, which stands for their modules until one of them runs."""

import pytest

from roost.cli.commands import COMMANDS
from roost.cli.main import Roost


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_table_says_of_a_command_what_the_command_says_of_itself(name):
    command = COMMANDS[name].load()(Roost(), None, cmd_name=name)
    assert command.get_description().splitlines()[0].rstrip(".") == COMMANDS[name].summary
