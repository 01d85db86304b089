# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: readers never see a partial one."""

from __future__ import annotations

import os
from pathlib import Path

from roost.errors import BadInput


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file in the target folder, then rename it. BadInput where that is not possible."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}", "name a file that can be written") from None
