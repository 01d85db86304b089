# SPDX-License-Identifier: Apache-2.0
"""What `pip install roost` brings is enough for the library and for commands on files; others name the extra."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = str(Path(__file__).parents[2] / "examples/fleet.yaml")
ONLY_IN_EXTRAS = {
    *("alembic", "fastapi", "keystoneauth1", "libvirt", "oslo_messaging", "oslo_policy", "oslo_service"),
    *("prometheus_client", "psycopg", "pymysql", "requests", "sqlalchemy", "structlog", "uvicorn"),
}
SIZE = ["--vcpus", "2", "--ram", "2048"]
LIBRARY = """
from roost import Fleet, Flavor, RequestSpec, Scheduler
scheduler = Scheduler(Fleet.load(sys.argv[1]), seed=1)
decision = scheduler.place(RequestSpec(flavor=Flavor(vcpus=2, memory_mb=2048)))
scheduler.explain(RequestSpec(flavor=Flavor(vcpus=999, memory_mb=1)))
code = 0 if decision.selections else 1
"""
COMMAND = "from roost.cli.main import main; code = main(sys.argv[1:])"
LOADED = 'print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))'


def run(code, *arguments):
    program = f"import json, sys\n{code}\n{LOADED}"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    code, loaded = json.loads(done.stdout.splitlines()[-1])
    return code, ONLY_IN_EXTRAS & set(loaded), done.stderr


def test_the_library_loads_no_database_driver_broker_or_hypervisor():
    assert run(LIBRARY, EXAMPLE) == (0, set(), "")


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["help", "server", "create"],
        ["place", "--fleet", EXAMPLE, *SIZE],
        ["explain", "--fleet", EXAMPLE, *SIZE],
        ["capacity", "--fleet", EXAMPLE, *SIZE],
        ["fleet", "schema"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_on_files_loads_no_database_driver_broker_or_hypervisor(words):
    assert run(COMMAND, *words) == (0, set(), "")


@pytest.mark.parametrize(
    ("module", "extra", "words"),
    [("sqlalchemy", "cloud", ["db", "version"]), ("uvicorn", "cloud", ["service", "api"])],
)
def test_a_command_whose_extra_is_missing_names_it_in_one_line(module, extra, words):
    code, _, said = run(f"sys.modules[{module!r}] = None\n{COMMAND}", *words)
    assert (code, said) == (
        2,
        f"roost: {module} is not installed, which this command needs: pip install 'roost[{extra}]'\n",
    )
