# SPDX-License-Identifier: Apache-2.0
"""Fleet files: hosts, aggregates, flavors, images, server groups, options. Start reading at `fleet.py`."""
