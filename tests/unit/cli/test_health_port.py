# SPDX-License-Identifier: Apache-2.0
"""[roost] health_port = 0 takes any free port, and the log says which."""

import logging
import re
import urllib.request
from types import SimpleNamespace

from roost.cli.service import health_server
from roost.services.metrics import Metrics


def test_the_log_names_the_port_that_was_free(caplog):
    caplog.set_level(logging.INFO)
    service = SimpleNamespace(unready=list, hangs=False)
    with health_server("127.0.0.1", 0, service, Metrics()):
        port = int(re.search(r"the health pages are on port (\d+)", caplog.text)[1])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            assert answer.status == 200
