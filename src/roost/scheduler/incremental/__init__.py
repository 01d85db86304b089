# SPDX-License-Identifier: Apache-2.0
"""The engine that caches answers per class of request and patches what changed. Start reading at `engine.py`."""
