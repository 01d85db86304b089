# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive the command that started them, each with a file that names its pid."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.nova_stack.programs.pid_files import start_time, write_pid

ROOT = Path(__file__).resolve().parents[2]
NOVA_ENV = ROOT / "build" / "nova-env"
BIN = NOVA_ENV / "bin"
PROGRAMS = Path(__file__).with_name("programs")


class StackError(Exception):
    """The cloud cannot do what it was told to; says where to look."""


def listens(port):
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


def wait_for(what, check, pid_file=None, seconds=300):
    """Wait until check() is true; StackError when time is over or the process that should make it true is gone."""
    give_up = time.monotonic() + seconds
    while not check():
        if time.monotonic() > give_up or (pid_file and not start_time(pid_file.read_text().split()[0])):
            where = f"; see {pid_file.parent.parent / 'logs'}" if pid_file else ""
            raise StackError(f"{what}: not there after {seconds} s, or ended{where}")
        time.sleep(0.1)


def start(directory, name, command, env=None, stop=signal.SIGTERM):
    """Start a command; its output goes to logs/NAME.log. `stop`: the signal that ends it in good order."""
    own = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "1", "PYTHONPATH": str(PROGRAMS)}
    with (directory / "logs" / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
            start_new_session=True,
            env={**os.environ, **own, **(env or {})},
        )
    write_pid(directory, name, process.pid, stop)
    return process


def start_program(directory, name, program, *arguments, env=None):
    """Start one of `programs/` under nova's Python."""
    return start(directory, name, [BIN / "python", "-W", "ignore", PROGRAMS / program, *arguments], env)


def run(directory, name, command, text=""):
    """Run a command to its end; its output goes to logs/NAME.log."""
    with (directory / "logs" / f"{name}.log").open("ab") as log:
        words = [str(word) for word in command]
        done = subprocess.run(words, input=text.encode(), stdout=log, stderr=log, cwd=directory, check=False)
    if done.returncode:
        raise StackError(f"{name} ended with status {done.returncode}; see {log.name}")


def end(directory, names, seconds=20, force=False):
    """Send each process its own stop signal, wait, and kill what is left. `force`: kill -9 at once."""
    alive = []
    for path in [directory / "pids" / name for name in names]:
        if path.exists():
            pid, began, stop = path.read_text().split()
            if start_time(pid) == began:
                if force and os.getpgid(int(pid)) == int(pid):  # with its workers
                    os.killpg(int(pid), signal.SIGKILL)
                else:
                    os.kill(int(pid), signal.SIGKILL if force else int(stop))
                alive.append((int(pid), began))
            path.unlink()
    wait_until_ended(alive, seconds)


def wait_until_ended(alive, seconds):
    """Wait for processes, given as pairs of pid and start time; kill what is left after that many seconds."""
    limit = time.monotonic() + seconds
    while alive := [(pid, began) for pid, began in alive if reaped(pid) and start_time(pid) == began]:
        if time.monotonic() > limit:
            for pid, _ in alive:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def reaped(pid):
    """Collect the exit status if it is a child of this process that has ended; True in any case."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return True
