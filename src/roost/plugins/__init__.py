# SPDX-License-Identifier: Apache-2.0
"""Which filters and weighers there are, and nova's shape for foreign ones. Start at `registry.py`.

Unmodified plugins of nova run too: where no nova is installed, `nova_import.py` resolves their imports of `nova`, and
adapts the plugins of an installed nova. See docs/adr/0010.

| nova's | is in |
| --- | --- |
| base classes of plugins, built-ins to derive from, the request as dict or object | `nova_shapes.py` |
| modules, and which names are in each | `nova_modules.py` |
| objects and errors | `nova_objects.py` |
| CONF | `nova_conf.py` |
| options and fleet of one pipeline, behind nova's global names | `context.py` |
"""
