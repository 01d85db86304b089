# SPDX-License-Identifier: Apache-2.0
"""Several libvirt daemons of an ordinary user on one machine: hosts, each with folders and a name of its own."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from tests.nova_stack.programs.pid_files import start_time

USER, GROUP = "nobody", "nogroup"
"""libvirtd of root wants a system that is set up for it; an ordinary user's needs nothing but its folders."""
WAIT_SECONDS = 60
PREFIX, OWNER = "roost-vms-", "owner"
"""Of the folders of tests, and the file in them that names the process of the test."""
STRANGER = """<domain type="qemu"><name>stranger</name><memory unit="MiB">16</memory><vcpu>1</vcpu>
<os><type machine="pc">hvm</type></os></domain>"""


class HostsError(Exception):
    """A daemon cannot be started, or does not answer; says where to look."""


@dataclass(frozen=True)
class LibvirtHost:
    """A daemon's folder and how it is reached."""

    name: str
    folder: Path

    @property
    def socket(self):
        return self.folder / "run" / "libvirt" / "libvirt-sock"

    @property
    def uri(self):
        """For [libvirt] connection_uri and for virsh."""
        return f"qemu+unix:///session?socket={self.socket}"

    def virsh(self, *words):
        """What virsh says: the view of a program that is not Roost."""
        done = subprocess.run(["virsh", "-c", self.uri, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise HostsError(f"virsh {' '.join(words)} on {self.name}: {done.stderr.strip()}")
        return done.stdout

    def domains(self):
        """uuid -> state, of all domains, by virsh."""
        states = {}
        for each in self.virsh("list", "--all", "--uuid").split():
            with contextlib.suppress(HostsError):  # gone since it was listed
                states[each] = self.virsh("domstate", each).strip()
        return states

    def start_stranger(self):
        """Have another program than Roost start a virtual machine; its uuid."""
        file = self.folder / "stranger.xml"
        file.write_text(STRANGER)
        self.virsh("create", str(file))
        return self.virsh("domuuid", "stranger").strip()


class LibvirtHosts:
    """Hosts by name; `with LibvirtHosts(["h1", "h2"]) as hosts:` ends all daemons and virtual machines at its end."""

    def __init__(self, names, logs=None):
        """`logs`: folder for what the daemons print."""
        self._base = Path(
            tempfile.mkdtemp(prefix="roost-vms-")
        )  # short: paths of sockets have at most 107 characters
        self._base.chmod(0o755)
        (self._base / OWNER).write_text(f"{os.getpid()} {start_time(os.getpid())}")
        self._logs = Path(logs or self._base)
        self._hosts = {name: LibvirtHost(name, self._base / name) for name in names}
        self._daemons = {}

    def __enter__(self):
        try:
            for name in self._hosts:
                self._make_folders(name)
                self.start(name)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def __getitem__(self, name):
        return self._hosts[name]

    def __iter__(self):
        return iter(self._hosts.values())

    def _make_folders(self, name):
        folder = self._hosts[name].folder
        for each in ("run", "config/libvirt", "cache", "data"):
            (folder / each).mkdir(parents=True)
        (folder / "run").chmod(0o700)
        texts = {
            "libvirtd.conf": f'auth_unix_rw = "none"\nhost_uuid = "{uuid.uuid4()}"\n',
            "qemu.conf": 'stdio_handler = "file"\n',  # else a second daemon, virtlogd, is wanted
        }
        for file, text in texts.items():
            (folder / "config" / "libvirt" / file).write_text(text)
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, USER, GROUP)

    def start(self, name):
        """Start the daemon of a host and wait until it answers; virtual machines that still run are found by it."""
        if os.geteuid() != 0:
            raise HostsError(
                "several hosts on one machine need a host name each, which only root may give: run as root"
            )
        host = self._hosts[name]
        host.socket.unlink(missing_ok=True)
        folders = {
            "XDG_RUNTIME_DIR": "run",
            "XDG_CONFIG_HOME": "config",
            "XDG_CACHE_HOME": "cache",
            "XDG_DATA_HOME": "data",
        }
        own = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(host.folder)}
        as_user = ["setpriv", f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups", "libvirtd"]
        with (self._logs / f"libvirtd-{name}.log").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name, *as_user],
                cwd=host.folder,
                env=own | {variable: str(host.folder / each) for variable, each in folders.items()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait(name)

    def _wait(self, name):
        give_up = time.monotonic() + WAIT_SECONDS
        while True:
            with contextlib.suppress(HostsError):
                self._hosts[name].virsh("list")
                return
            if time.monotonic() > give_up or self._daemons[name].poll() is not None:
                raise HostsError(f"libvirtd of {name} does not answer; see {self._logs / f'libvirtd-{name}.log'}")
            time.sleep(0.05)

    def kill_daemon(self, name):
        """Kill -9 libvirtd; virtual machines go on running."""
        daemon = self._daemons.pop(name, None)
        if daemon is not None:
            daemon.kill()
            daemon.wait()

    def kill(self, name):
        """Kill -9 the daemon and all virtual machines of a host, as a power failure does."""
        self.kill_daemon(name)
        for pid in self.qemu_pids(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def qemu_pids(self, name):
        """Processes of the virtual machines of a host."""
        return find_processes(self._hosts[name].folder, "qemu-system")

    def close(self):
        """End all daemons and virtual machines, and remove their folders."""
        for name in self._hosts:
            self.kill(name)
        shutil.rmtree(self._base, ignore_errors=True)


def find_processes(folder, *names):
    """Processes of programs with these names that work in a folder, or whose command lines name files below it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = os.fsdecode((process / "cmdline").read_bytes()).split("\0")
            places = (f"{(process / 'cwd').readlink()}/", *words)
            if any(name in words[0] for name in names) and any(f"{folder}/" in each for each in places):
                found.append(int(process.name))
    return found


def remove_abandoned():
    """End daemons and virtual machines of tests that were killed themselves."""
    for base in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            pid, began = (base / OWNER).read_text().split()
            if start_time(pid) != began:
                for process in find_processes(base, "libvirtd", "qemu-system"):
                    os.kill(process, signal.SIGKILL)
                shutil.rmtree(base, ignore_errors=True)
