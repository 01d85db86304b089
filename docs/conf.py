# SPDX-License-Identifier: Apache-2.0
"""Configuration of Sphinx, which `make docs` runs."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import roost  # noqa: E402
from docs import _generate  # noqa: E402

project = "Roost"
author = "the Roost authors"
copyright = "the Roost authors; Apache License 2.0"
version = release = roost.__version__

extensions = ["myst_parser"]
myst_heading_anchors = 3
exclude_patterns = ["_*"]
html_theme = "alabaster"
html_theme_options = {
    "description": "decides on which host a virtual machine runs, and says why",
    "page_width": "1180px",
    "body_max_width": "none",
}
html_show_sphinx = False


def setup(app):
    app.connect("builder-inited", lambda app: _generate.write_reference(HERE / "reference" / "generated"))
