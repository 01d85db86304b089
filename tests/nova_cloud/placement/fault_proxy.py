# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy in front of placement that loses answers, gives its own, or holds requests back."""

import contextlib
import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Seen(NamedTuple):
    """A request as it arrived."""

    method: str
    path: str
    headers: dict
    body: object


class Fault:
    """What happens to the next requests with this method and this text in the path."""

    def __init__(self, method, path, times=1, status=0, body=b"", executes=True, before=None, after=None, late=None):
        """`status`: answer that; 0: close the connection. `executes`: placement gets the request all the same.

        `before` and `after` are called around it; with one of them and no status, the real answer is given.
        `late`: an event; the connection is closed at once, and placement gets the request when it is set.
        """
        self.method, self.path, self.times = method, path, times
        self.status, self.body, self.executes = status, body, executes
        self.before, self.after, self.late = before, after, late

    def matches(self, method, path):
        return self.times > 0 and method == self.method and self.path in path


def conflict(code, detail):
    return json.dumps(
        {"errors": [{"status": 409, "code": code, "detail": f"There was a conflict.\n\n {detail}"}]}
    ).encode()


class PatientServer(ThreadingHTTPServer):
    """Many clients may connect at the same moment; one that is turned away tries again after a second."""

    request_queue_size = 128


class FaultProxy:
    """Forwards to a port, but for the faults. `seen` are all requests."""

    def __init__(self, port):
        self.faults, self.seen, self._lock = [], [], threading.Lock()
        self.in_flight = self.most_in_flight = 0
        """POSTs that are with placement: now, and at most so far."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_any(self):
                with contextlib.suppress(ConnectionError):  # a client that did not wait for the answer
                    proxy.handle(self, port)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - the names that http.server calls

        self._server = PatientServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def add(self, *arguments, **options):
        self.faults.append(Fault(*arguments, **options))

    def of(self, method, path):
        """The requests that were seen with this method and this text in the path."""
        return [each for each in self.seen if each.method == method and path in each.path]

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def handle(self, request, port):
        length = int(request.headers.get("Content-Length") or 0)
        content = request.rfile.read(length)
        body = json.loads(content) if content else None
        with self._lock:
            self.seen.append(Seen(request.command, request.path, dict(request.headers), body))
            fault = next((each for each in self.faults if each.matches(request.command, request.path)), None)
            if fault:
                fault.times -= 1
        if fault and fault.late:
            request.close_connection = True
            threading.Thread(
                target=lambda: fault.late.wait() and self._forward(request, content, port), daemon=True
            ).start()
            return
        if fault and fault.before:
            fault.before()
        answer = None
        if fault is None or fault.executes:
            answer = self._forward(request, content, port)
        if fault and fault.after:
            fault.after()
        if fault and not fault.status and not (fault.before or fault.after):
            request.close_connection = True
            return
        status, kind, text = (fault.status, "application/json", fault.body) if fault and fault.status else answer
        request.send_response(status)
        request.send_header("Content-Type", kind or "text/plain")
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    def _forward(self, request, content, port):
        is_post = request.command == "POST"
        with self._lock:
            self.in_flight += is_post
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {name: each for name, each in request.headers.items() if name not in ("Host", "Connection")}
        connection.request(request.command, request.path, content or None, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        with self._lock:
            self.in_flight -= is_post
        return answer.status, answer.headers.get("Content-Type"), text
