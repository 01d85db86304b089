# SPDX-License-Identifier: Apache-2.0
"""A process that a shell left behind leads a group of its own; any other stays in the one it is in."""

import subprocess
import sys

LEFT_BEHIND = """
import os, time
from roost.messages.oslo import ensure_process_group
while os.path.exists(f"/proc/{os.getpgrp()}"):
    time.sleep(0.01)
ensure_process_group()
print(os.getpgrp() == os.getpid(), flush=True)
"""


def test_one_whose_shell_has_ended_leads_its_own():
    with subprocess.Popen(
        ["sh", "-c", f"{sys.executable} -c '{LEFT_BEHIND}' & exit 0"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        shell.wait(20)
        assert shell.stdout.read() == "True\n"


def test_any_other_stays_where_it_is():
    code = (
        "import os; from roost.messages.oslo import ensure_process_group; "
        "ensure_process_group(); print(os.getpgrp() != os.getpid())"
    )
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -c '{code}'; true"],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    assert done.stdout == "True\n"
