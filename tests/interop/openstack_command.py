# SPDX-License-Identifier: Apache-2.0
"""The real `openstack` command, in an environment of its own."""

import json
import os
import subprocess
from typing import NamedTuple

from conformance.nova_env import ensure_environment
from tests.nova_stack.processes import ROOT

PACKAGES = ("python-openstackclient==10.5.0",)
LONGEST_SECONDS = 90


class Done(NamedTuple):
    """What a command did."""

    code: int
    found: object
    """Its output: JSON data where it prints any."""
    said: str
    """The last line of its standard error: what went wrong, if something did."""


class OpenStack:
    """Runs `openstack` as a user of a clouds.yaml."""

    def __init__(self, clouds, cloud="roost"):
        self._program = ensure_environment(ROOT / "build" / "openstack-env", PACKAGES).with_name("openstack")
        self._clouds, self._cloud = clouds, cloud

    def as_user(self, cloud):
        """The same, as another user of the file."""
        return OpenStack(self._clouds, cloud)

    def run(self, *words, prints=True):
        """A command with these words. `prints`: it has an output, which is asked for as JSON."""
        form = ("-f", "json") if prints else ()
        try:
            done = subprocess.run(
                [str(self._program), "--os-cloud", self._cloud, *map(str, words), *form],
                env={**os.environ, "OS_CLIENT_CONFIG_FILE": str(self._clouds)},
                capture_output=True,
                text=True,
                check=False,
                timeout=LONGEST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Done(1, "", f"it has not ended after {LONGEST_SECONDS} s")
        lines = done.stderr.strip().splitlines()
        return Done(done.returncode, _parse(done.stdout), lines[-1] if lines else "")


def _parse(output):
    try:
        return json.loads(output)
    except ValueError:
        return output.strip()
