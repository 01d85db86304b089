# SPDX-License-Identifier: Apache-2.0
"""The HTTP API: Compute v2.1, and what its clients need beside it. Start reading at `routes.py`: all URLs."""
