# SPDX-License-Identifier: Apache-2.0
"""`roost dev`: a whole cloud in one process, for development and demonstrations. Start reading at `cloud.py`."""
