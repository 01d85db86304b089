# SPDX-License-Identifier: Apache-2.0
"""nova.conf: CONF is oslo.config's own."""

from oslo_config import cfg

CONF = cfg.CONF
