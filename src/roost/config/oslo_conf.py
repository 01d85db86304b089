# SPDX-License-Identifier: Apache-2.0
"""Config files for libraries of OpenStack that declare their options themselves, with oslo.config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oslo_config import cfg

from roost.config.files import one_line, read_file
from roost.errors import OptionError


def read_conf(files: Sequence[Path]) -> cfg.ConfigOpts:
    """Values of these config files, to be declared by a library; OptionError where the files cannot be read."""
    conf = cfg.ConfigOpts()
    for name in {name for file in files for name in read_file(file).get("DEFAULT", ())}:
        conf.register_opt(cfg.StrOpt(name))  # a value may refer to it, as in http://$my_ip/placement
    try:
        conf(args=[], project="nova", default_config_files=[str(file) for file in files], default_config_dirs=[])
    except cfg.Error as error:
        raise OptionError(one_line(error)) from None
    return conf
