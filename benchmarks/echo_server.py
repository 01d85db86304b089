# SPDX-License-Identifier: Apache-2.0
"""The broker's own floor: answers every request at once, with an answer as long as a scheduler's.

python -m benchmarks.echo_server TRANSPORT_URL EXCHANGE ANSWER.json
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roost.rpc import RpcOptions, open_transport

TOPIC = "echo"


@dataclass(frozen=True)
class Echo:
    """Takes what a scheduler takes."""

    answer: Any
    version: str = "4.5"

    @property
    def methods(self) -> dict[str, Any]:
        """One."""
        return {"select_destinations": lambda context, **arguments: self.answer}


def main(url: str, exchange: str, answer: str) -> None:
    """Until it is told to stop."""
    transport = open_transport(RpcOptions(transport_url=url, control_exchange=exchange))
    server = transport.serve(TOPIC, "echo", [Echo(json.loads(Path(answer).read_text()))])
    server.start()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.set())
    print("ready", flush=True)
    stopped.wait()
    server.stop()
    server.wait()
    transport.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
