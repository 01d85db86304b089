# SPDX-License-Identifier: Apache-2.0
"""Unmodified plugins of nova: a compatible `nova` package for plugins that import it where no nova is installed.

Start reading at `import_hook.py`: which imports of `nova` it resolves, and when. The modules in `nova/` only
re-export names from: `plugin_context.py` (options and fleet of one pipeline), `conf.py` and `nova_options.py` (nova's
CONF), `fleet_state.py`, `objects.py` and `database.py` (nova's objects), `request_shapes.py` (the request as dict or
object), `base_classes.py` (base classes of plugins), `built_in.py` (built-ins to derive from). `real_nova_plugins.py`
adapts plugins of an installed nova; `import_errors.py` explains why a plugin cannot be loaded; `unknown_flavors.py`
warns of plugins that decide by what is not known. See docs/adr/0010.
"""
