# SPDX-License-Identifier: Apache-2.0
"""What only schedulers from Icehouse to Liberty were asked, such as run_instance. Start reading at `methods.py`."""
