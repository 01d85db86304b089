# SPDX-License-Identifier: Apache-2.0
"""Plugins: the registry of filters and weighers, and a compatible `nova` for plugins that import it without one.

Start reading at `registry.py`: how names in the options become classes. `nova_import.py` decides which imports of
`nova` are resolved, and when; it explains why a plugin cannot be loaded, and adapts plugins of an installed nova.
`nova_modules.py` is the table of nova's modules and the names in them, which come from: `context.py` (options and
fleet of one pipeline), `nova_conf.py` (nova's CONF), `nova_objects.py` (nova's objects and errors), `nova_shapes.py`
(base classes, built-ins to derive from, and the request as dict or object). See docs/adr/0010.
"""
