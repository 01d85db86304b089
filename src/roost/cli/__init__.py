# SPDX-License-Identifier: Apache-2.0
"""The command `roost`. Start reading at `main.py`; a command is a class in a module named for its noun or verb."""
