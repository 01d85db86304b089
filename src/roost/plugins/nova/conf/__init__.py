# SPDX-License-Identifier: Apache-2.0
"""nova.conf: CONF is oslo.config's global object."""

from oslo_config import cfg

CONF = cfg.CONF
