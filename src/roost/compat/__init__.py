# SPDX-License-Identifier: Apache-2.0
"""Plugins written for nova, as they are: what answers when they `import nova` and no nova is installed.

Start reading at `finder.py` (who gets an answer, and when). `nova/` is the tree that answers: it only names things.
What is behind the names: `world.py` (options and fleet of one pipeline), `conf.py` and `nova_options.py` (nova's
CONF), `fleet.py`, `objects.py` and `database.py` (nova's objects), `requests.py` (the request in its older form),
`shapes.py` (the base classes), `built_in.py` (built-ins to derive from). `adopting.py` is for those who have a real
nova, `missing.py` for what is not there. docs/adr/0010 has the reasons.
"""

from roost.compat.conf import PluginOptions, registered_options
from roost.compat.fleet_state import FleetState, TableState
from roost.compat.import_hook import importing
from roost.compat.plugin_context import PluginContext, current_context

__all__ = [
    "FleetState",
    "PluginContext",
    "PluginOptions",
    "TableState",
    "current_context",
    "importing",
    "registered_options",
]
