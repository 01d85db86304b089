# SPDX-License-Identifier: Apache-2.0
"""Import nova once, then fork it: saves the imports and half of the memory of every further process.

many.py manage NOVA_CONF  < COMMANDS                   nova-manage commands, one a line, in turn
many.py compute DIR V,M,D[,N][:V,M,D...] HOST...       one nova-compute per host; sizes go round
"""

import gc
import os
import re
import shlex
import sys
import traceback
from pathlib import Path

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "1"


def fork(run, *arguments):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = run(*arguments) or 0
    except SystemExit as e:
        code = e.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def manage(conf):
    from nova.cmd import manage as command

    for line in sys.stdin.read().splitlines():
        sys.argv = ["nova-manage", "--config-file", conf, *shlex.split(line)]
        print("nova-manage", line, flush=True)
        if os.waitstatus_to_exitcode(os.waitpid(fork(command.main), 0)[1]):
            sys.exit(f"failed: nova-manage {line}")


def compute(directory, sizes, *hosts):
    from nova.cmd import compute as command  # isort: skip  must be the first import of nova
    import nova.compute.manager  # noqa: F401  the slow part of every start
    from pid_files import write_pid

    root, sizes = Path(directory), [tuple(map(int, s.split(","))) for s in sizes.split(":")]
    gc.freeze()  # keeps the pages that the children share
    for n, host in enumerate(hosts):
        number = int(re.sub(r"\D", "", host) or n)  # host7 has the same size whenever it starts
        write_pid(root, f"compute-{host}", fork(run_compute, command, root, host, sizes[number % len(sizes)]))
    for _ in hosts:
        os.wait()


def run_compute(command, root, host, size):
    from nova.virt import fake

    own, flaky = root / "computes" / host, host.startswith("flaky")
    own.mkdir(parents=True, exist_ok=True)
    (own / "host.conf").write_text(
        f"[DEFAULT]\nhost = {host}\nstate_path = {own}\n[oslo_concurrency]\nlock_path = {own}\n"
    )
    if flaky:  # four times as big, and fails the first build of every server
        (own / "flaky.conf").write_text("[DEFAULT]\ncompute_driver = fake.FakeRescheduleDriver\n")
        size = [4 * n for n in size[:3]]
    fake.FakeDriver.vcpus, fake.FakeDriver.memory_mb, fake.FakeDriver.local_gb = size[:3]
    if size[3:]:
        add_numa(fake.FakeDriver, size[0], size[1], size[3])
    log = os.open(root / "logs" / f"compute-{host}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = ["nova-compute", "--config-file", str(root / "compute.conf"), "--config-dir", str(own)]
    return command.main()


def add_numa(driver, vcpus, memory, cells):
    """Let the fake driver report its cpus (two threads a core) and memory as equal NUMA cells.

    nova-compute then fits every NUMA server to them.
    """
    from nova import objects

    cpus, plain = vcpus // cells, driver.get_available_resource

    def cell(n):
        mine = range(n * cpus, (n + 1) * cpus)
        return objects.NUMACell(
            id=n,
            socket=n,
            cpuset=set(mine),
            pcpuset=set(mine),
            pinned_cpus=set(),
            siblings=[{c, c + 1} for c in mine[::2]],
            memory=memory // cells,
            cpu_usage=0,
            memory_usage=0,
            network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
            mempages=[objects.NUMAPagesTopology(size_kb=4, total=memory // cells * 256, used=0, reserved=0)],
        )

    def get_available_resource(self, nodename):
        return plain(self, nodename) | {
            "numa_topology": objects.NUMATopology(cells=[cell(n) for n in range(cells)])._to_json()
        }

    driver.get_available_resource = get_available_resource


if __name__ == "__main__":
    {"manage": manage, "compute": compute}[sys.argv[1]](*sys.argv[2:])
