# SPDX-License-Identifier: Apache-2.0
"""The command among other programs: pipes, terminals, memory, large files."""

import dataclasses
import json
import os
import pty
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOST = f"{sys.executable} -m roost"
ESCAPE = "\x1b["


def shell(command, **environment):
    environment = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=environment, capture_output=True, text=True, check=False
    )


def on_a_terminal(*arguments, **environment):
    """What the command prints where stdout and stderr are a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    with subprocess.Popen(
        [sys.executable, "-m", "roost", *map(str, arguments)], stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        printed = b""
        try:
            while chunk := os.read(ours, 65536):
                printed += chunk
        except OSError:  # Linux's way to say that the other end is closed
            pass
        process.wait()
    os.close(ours)
    return printed.decode()


def test_a_reader_that_has_seen_enough_is_no_error(fleet):
    done = shell(f"{ROOST} place --fleet {fleet} --flavor small -f json | head -1")
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_a_table_may_be_cut_short_too(fleet):
    done = shell(f"{ROOST} place --fleet {fleet} --flavor small | true")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("command", ["help place", "fleet schema", "--help"])
def test_the_same_goes_for_help_and_schema(command):
    done = shell(f"{ROOST} {command} | head -1")
    assert done.stderr == ""


def test_a_full_disk_is_one_line(fleet):
    done = shell(f"{ROOST} place --fleet {fleet} --flavor small > /dev/full")
    assert done.returncode == 74
    assert done.stderr == "roost: the answer cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("closed", "code", "message"),
    [
        (">&-", 74, "roost: the answer cannot be written: standard output is closed\n"),
        ("2>&-", 0, ""),
        ("--fleet - <&-", 2, "roost: -: standard input is closed (name a file)\n"),
    ],
)
def test_a_closed_stream_is_no_catastrophe(fleet, closed, code, message):
    done = shell(f"{ROOST} place --fleet {fleet} --flavor small {closed}")
    assert (done.returncode, done.stderr) == (code, message)


def test_what_is_no_terminal_gets_no_colours_and_whole_rows(process, tmp_path):
    name = "node-" + "x" * 200
    (tmp_path / "fleet.yaml").write_text(f"hosts: [{{host: {name}, vcpus_total: 1, total_usable_ram_mb: 1}}]")
    done = process("place", "--fleet", "fleet.yaml", "--vcpus", 1, "--ram", 1, "--force-host", name, COLUMNS="40")
    assert ESCAPE not in done.out
    assert any(name in line for line in done.out.splitlines())


def test_a_mistake_goes_to_stderr_without_colours(process):
    process("place", "--fleet", "nowhere").assert_refused("the size of the instance is missing")


def test_a_terminal_gets_bold_headings_and_red_mistakes(fleet):
    assert ESCAPE in on_a_terminal("place", "--fleet", fleet, "--flavor", "small")
    assert f"{ESCAPE}31m" in on_a_terminal("place", "--fleet", fleet, "--flavor", "smal")


def test_no_color_is_honoured(fleet):
    for flavor in ("small", "smal", "huge"):
        assert ESCAPE not in on_a_terminal("place", "--fleet", fleet, "--flavor", flavor, NO_COLOR="1")


def test_a_name_that_the_terminal_cannot_show_is_shown_somehow(process, tmp_path):
    (tmp_path / "fleet.yaml").write_text("hosts: [{host: café, vcpus_total: 1, total_usable_ram_mb: 1}]")
    arguments = ("place", "--fleet", "fleet.yaml", "--vcpus", 1, "--ram", 1)
    done = process(*arguments, "-f", "value", "-c", "Host", PYTHONIOENCODING="ascii")
    assert (done.code, done.out) == (0, "caf\\xe9\n")
    assert process(*arguments, PYTHONIOENCODING="ascii").code == 0


def test_json_from_standard_input_is_understood(fleet):
    done = shell(f"""echo '{{"hosts": []}}' | {ROOST} place --fleet - --vcpus 1 --ram 1""")
    assert done.stderr == "roost: 0 of 0 hosts fit: there are no hosts\n"


def test_a_file_without_end_is_given_up(process):
    """With 3 GiB of memory at most: the file is read up to a bound."""
    limited = ("bash", "-c", f'ulimit -v {3 << 20}; exec {ROOST} "$@"', "roost")
    done = process("place", "--fleet", "/dev/zero", "--vcpus", 1, "--ram", 1, program=limited)
    done.assert_refused("/dev/zero: the file is larger than 1024 MiB")


# --- large files -------------------------------------------------------------------------------------


def write_large_fleet(path, megabytes):
    """Hosts as an agent would report them, each a little different."""
    chance = random.Random(1)
    flavors = [{"name": "small", "vcpus": 2, "memory_mb": 2048, "root_gb": 20}]
    with path.open("w") as file:
        file.write(f'{{"flavors": {json.dumps(flavors)}, "hosts": [\n')
        written = number = 0
        while written < megabytes * 1_000_000:
            written += file.write((",\n" if number else "") + json.dumps(large_host(number, chance)))
            number += 1
        file.write("\n]}\n")
    return number


def large_host(number, chance):
    return {
        "host": f"node-{number:06d}.example.com",
        "total_usable_ram_mb": 262144,
        "free_ram_mb": chance.randrange(262144),
        "total_usable_disk_gb": 2000,
        "free_disk_mb": chance.randrange(2048000),
        "vcpus_total": 64,
        "vcpus_used": chance.randrange(200),
        "num_io_ops": chance.randrange(5),
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8002000,
        "host_ip": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        "supported_instances": [["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]],
        "traits": ["HW_CPU_X86_AVX2", "HW_CPU_X86_SSE"],
        "cpu_info": {"model": "Cascadelake", "topology": {"cores": 16, "threads": 2, "sockets": 2}},
        "service": {"disabled": False, "up": True},
        "instances": [{"uuid": f"{number}-{each}", "flavor_id": "42", "project_id": "p"} for each in range(3)],
    }


MEASURED = """
import re, sys, time
from roost.cli.main import main
code = main(["place", *sys.argv[1:]])
peak_kib = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(code, time.process_time(), peak_kib / 1024, file=open("measured", "w"))
"""


def run_measured(process, *arguments):
    """The outcome, processor time in seconds and peak memory in MiB."""
    done = process(*arguments, program=(sys.executable, "-c", MEASURED))
    code, seconds, mebibytes = Path("measured").read_text().split()
    return dataclasses.replace(done, code=int(code)), float(seconds), float(mebibytes)


def test_twenty_megabytes_take_a_fifth_of_a_minute_and_a_fifth_of_four_gigabytes(process, tmp_path):
    """100 MB must work within a minute and 4 GB: here is a fifth of it, in processor time."""
    hosts = write_large_fleet(tmp_path / "fleet.json", megabytes=20)
    done, seconds, mebibytes = run_measured(process, "--fleet", "fleet.json", "--flavor", "small", "-f", "json")
    assert done.code == 0
    assert done.record["decision"]["hosts"] == hosts
    assert seconds < 12
    assert mebibytes < 800


def test_a_bomb_takes_little_time_and_memory(process, tmp_path):
    names = zip("abcdefghi", "bcdefghij", strict=True)
    lines = [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in names]
    (tmp_path / "fleet.yaml").write_text("\n".join(["a: &a [x, x, x, x, x, x, x, x, x]", *lines, "hosts: *j"]))
    done, seconds, mebibytes = run_measured(process, "--fleet", "fleet.yaml", "--vcpus", 1, "--ram", 1)
    done.assert_refused("aliases expand to more than")
    assert seconds < 5
    assert mebibytes < 200
