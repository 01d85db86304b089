# SPDX-License-Identifier: Apache-2.0
"""The pages on the service: what they show works as it stands there, and what they name exists."""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from tests.flow.cloud import UUID, Cloud, hosts_of, request

from docs import _commands
from roost.cli.main import main
from roost.options.declare import declared
from roost.scheduler.all_options import option_owners, read_options
from roost.trial.private_servers import free_port

ROOT = _commands.ROOT
PAGE = (ROOT / "docs/how-to/run-the-scheduler.md").read_text(encoding="utf-8")
MESSAGES = (ROOT / "docs/explanation/messages.md").read_text(encoding="utf-8")
READY_SECONDS = 60


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block_with(language, word):
    (found,) = [block for block in blocks(language) if word in block]
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the page speaks of; commands are run there."""
    (tmp_path / "roost.conf").write_text(block_with("ini", "in-process://"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run_shown_commands():
    """Every command of the first console block, with what the page says it prints and what it does print."""
    for shown in re.split(r"^\$ ", block_with("console", "roost db upgrade"), flags=re.MULTILINE)[1:]:
        command, _, output = shown.partition("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main(shlex.split(command)[1:])
        yield command, output, "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())


def test_the_first_configuration_has_six_lines():
    assert len(block_with("ini", "in-process://").splitlines()) == 6


def test_the_first_steps_print_what_the_page_says(folder):
    ran = list(run_shown_commands())
    assert len(ran) == 2
    for command, said, printed in ran:
        assert _commands.is_same(said, printed), f"{command}\nthe page says\n{said}\nit prints\n{printed}"


def test_the_service_starts_is_ready_reloads_and_ends_as_the_page_says(folder):
    list(run_shown_commands())
    port, log = free_port(), folder / "log"
    (folder / "port.conf").write_text(f"[roost]\nhealth_port = {port}\n")
    command = [sys.executable, "-m", "roost", "service", "scheduler"]
    command += ["--config-file", "roost.conf", "--config-file", "port.conf"]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output, env=os.environ)
    try:
        assert wait_for_answer(port, process, log) == json.loads(block_with("text", "readyz").splitlines()[1])
        config = folder / "roost.conf"
        config.write_text(config.read_text().replace("host = blue", "host = blue\ndebgu = true"))
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: block_with("text", "debgu").strip() in log.read_text(), log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    for line in block_with("text", "service scheduler").splitlines()[1:]:
        assert words_of(line) in words_of(log.read_text())


def wait_for_answer(port, process, log):
    found = {}

    def is_ready():
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            found.update(json.load(answer))
        return bool(found)

    wait_until(is_ready, log)
    return found


def wait_until(is_so, log):
    give_up = time.monotonic() + READY_SECONDS
    while not is_so():
        assert time.monotonic() < give_up, log.read_text()
        time.sleep(0.05)


def words_of(text):
    """Without times and how long something took."""
    return re.sub(r"seconds=[\d.]+", "", re.sub(r"\d{4}-\S+Z ", "", text))


@pytest.fixture
def example_cloud(tmp_path):
    """A scheduler on the fleet of the examples, in this process."""
    cloud = Cloud(tmp_path, {})
    cloud.bring(str(ROOT / "examples/fleet.yaml"))
    yield cloud
    cloud.close()


def test_the_python_of_the_page_asks_and_gives_back(example_cloud, monkeypatch):
    example_cloud.service()
    monkeypatch.setattr("roost.messages.open_transport.open_transport", lambda options: example_cloud.transport)
    monkeypatch.setattr("roost.store.engine.open_engine", lambda options: example_cloud.engine)
    namespace = {"__name__": "page"}
    sources = [source for source in blocks("python") if "(Driver)" not in source]
    assert len(sources) == 2
    for source in sources:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "run-the-scheduler.md", "exec"), namespace)
        said = re.findall(r"^print\(.*\)  # (.*)$", source, re.MULTILINE)
        assert printed.getvalue().splitlines()[-len(said) :] == said  # the scheduler's own log may come before


def test_the_driver_of_the_page_works_with_the_configuration_of_the_page(tmp_path, monkeypatch):
    (tmp_path / "own_driver.py").write_text(block_with("python", "(Driver)"))
    (tmp_path / "own.conf").write_text(block_with("ini", "own_driver"))
    monkeypatch.syspath_prepend(tmp_path)
    busy = {"instances": ["one", "two"]}
    cloud = Cloud(tmp_path, {"a": busy, "b": {}, "c": {}})
    cloud.settings = read_options([tmp_path / "own.conf"])
    placement = cloud.manager().claims.select(request(), [UUID % 1, UUID % 2])
    assert hosts_of(placement) == ["b", "c"]
    assert len(cloud.holdings([UUID % 1, UUID % 2])) == 2
    cloud.close()
    sys.modules.pop("own_driver", None)


@pytest.mark.parametrize("text", blocks("ini"))
def test_every_configuration_of_the_page_is_understood(tmp_path, text):
    (tmp_path / "page.conf").write_text(text)
    read_options([tmp_path / "page.conf"])


@pytest.mark.parametrize("page", [PAGE, MESSAGES], ids=["run-the-scheduler", "messages"])
def test_every_option_that_a_page_names_exists(page):
    known = {(option.group, option.name) for owner in option_owners() for option in declared(owner)}
    named = set(re.findall(r"`\[(\w+)\] (\w+)(?: = [^`]*)?`", page))
    assert named
    assert named <= known


def test_every_message_of_the_troubleshooting_table_is_in_the_code():
    rows = [line for line in PAGE.partition("## When it does not work")[2].splitlines() if line.startswith("| `")]
    assert len(rows) >= 10
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/roost").rglob("*.py"))
    for row in rows:
        for piece in pieces_of(re.match(r"\| `([^`]*)`", row)[1]):
            assert piece in code, row


def pieces_of(message):
    """What of a message is the same each time: no names, no counts, no quotation."""
    parts = re.split(r"\.\.\.|\b[XYN]\b|\[\w+\](?: connection)?|why=.*|error=|the queue scheduler|\(|\)|\?", message)
    return [part.strip(" :") for part in parts if part.strip(" :")]
