# SPDX-License-Identifier: Apache-2.0
"""Creates virtual environments with nova or other programs, once. The environment of Roost never has nova."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.asking import OracleError

NOVA = "nova==34.0.0"
PACKAGES = (NOVA, "openstack-placement==16.0.0", "waitress", "PyMySQL")
"""What is installed: nova, and what a cloud of it needs besides (tests/nova_stack)."""


def ensure_nova(folder: Path) -> Path:
    """The Python interpreter of the environment with nova, which is created where it is missing or incomplete."""
    return ensure_environment(folder, PACKAGES)


def ensure_environment(folder: Path, packages: Sequence[str]) -> Path:
    """The Python interpreter of an environment with these packages, created where it is missing or incomplete."""
    python, ready = folder / "bin" / "python", folder / ".ready"
    # The Python of Roost, or speed comparisons would compare compilers.
    contents = "\n".join((*packages, sys.version, ""))
    if not ready.exists() or ready.read_text() != contents:
        print(f"setting up {packages[0]} in {folder}: once, a few minutes ...", file=sys.stderr, flush=True)
        for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], installer(python, packages)):
            _run(command)
        ready.write_text(contents)
    return python


def installer(python: Path, packages: Sequence[str]) -> list[str]:
    """The command that installs packages: uv where it exists, as it is faster, else pip; quiet off a terminal."""
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    uv = Path(sys.executable).with_name("uv")
    if uv.exists():
        return [str(uv), "pip", "install", *quiet, "--python", str(python), *packages]
    return [str(python), "-m", "pip", "install", *quiet, "--disable-pip-version-check", *packages]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    if done.returncode:
        raise OracleError(f"{' '.join(command)} ended with status {done.returncode}")
