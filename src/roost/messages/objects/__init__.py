# SPDX-License-Identifier: Apache-2.0
"""Conversion between records and nova's versioned objects in messages. Start reading at `request.py`."""
