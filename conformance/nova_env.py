# SPDX-License-Identifier: Apache-2.0
"""An environment with nova in it, made once. Roost's own never has nova."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conformance.asking import OracleError

NOVA = "nova==34.0.0"


def ensure_nova(folder: Path) -> Path:
    """The Python of the environment; sets it up where it is missing or was left half-made."""
    python, ready = folder / "bin" / "python", folder / ".ready"
    made_of = f"{NOVA}\n{sys.version}\n"  # by our own Python, or comparing speeds would compare compilers
    if not ready.exists() or ready.read_text() != made_of:
        print(f"setting up {NOVA} in {folder}: once, a few minutes ...", file=sys.stderr, flush=True)
        for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], installer(python)):
            _run(command)
        ready.write_text(made_of)
    return python


def installer(python: Path) -> list[str]:
    """uv where there is one, for it takes seconds; else pip. Both show what they do, on a terminal."""
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    uv = Path(sys.executable).with_name("uv")
    if uv.exists():
        return [str(uv), "pip", "install", *quiet, "--python", str(python), NOVA]
    return [str(python), "-m", "pip", "install", *quiet, "--disable-pip-version-check", NOVA]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode:
        raise OracleError(f"{' '.join(command)} ended with status {done.returncode}")
