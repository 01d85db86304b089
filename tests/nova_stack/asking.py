# SPDX-License-Identifier: Apache-2.0
"""Put requests to a scheduler of the cloud with nova's own client, which runs under nova's Python."""

import json
import subprocess
import uuid

from tests.nova_stack.processes import BIN, PROGRAMS, StackError

ANSWER_SECONDS = 60


def request(size="1,512,1", count=1, **more):
    """A request for `count` new servers of this size (vcpus, MiB, GB); see `make_spec` of ask_scheduler.py."""
    uuids = [str(uuid.uuid4()) for _ in range(count)]
    return {"uuids": uuids, "size": [int(each) for each in size.split(",")], **more}


class Asker:
    """nova's client for one topic. A context manager: the process ends with it."""

    def __init__(self, cloud, topic="scheduler", answer_seconds=ANSWER_SECONDS):
        """`answer_seconds`: how long a client waits for an answer before it gives up."""
        own = cloud.dir / f"ask-{topic}.conf"
        own.write_text(f"[DEFAULT]\nrpc_response_timeout = {answer_seconds}\nlong_rpc_timeout = {answer_seconds}\n")
        files = ["--config-file", cloud.dir / "nova.conf", "--config-file", own]
        program = [BIN / "python", "-W", "ignore", PROGRAMS / "ask_scheduler.py", topic, cloud.env["placement"]]
        self.log = cloud.dir / "logs" / f"ask-{topic}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(word) for word in (*program, *files)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=ANSWER_SECONDS)

    def ask(self, requests, clients=1, releases=True, on_answer=None):
        """The answers, in the order of the requests. `releases`: claims are deleted from placement afterwards.

        `on_answer` is called with each answer as it comes.
        """
        order = {"clients": clients, "releases": releases, "requests": requests}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        found = []
        while "done" not in (answer := self._read()):
            found.append(answer)
            if on_answer:
                on_answer(answer)
        return sorted(found, key=lambda answer: answer["index"])

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise StackError(f"nova's client ended; see {self.log}")
        return json.loads(line)
