# SPDX-License-Identifier: Apache-2.0
"""As much of Keystone as a validator of tokens needs: discovery, a token for the service, answers about tokens."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SERVICE_TOKEN = "token-of-the-service"


class PatientServer(ThreadingHTTPServer):
    """Many clients may connect at the same moment; one that is turned away tries again after a second."""

    request_queue_size = 128


class KeystoneWithTokens:
    """`records`: token -> its record, or (status, body). `asked`: the tokens it was asked for, in order."""

    def __init__(self):
        self.records, self.asked, self.password = {}, [], "right"
        self.together = None
        """A barrier at which questions about tokens wait for one another."""
        self._server = PatientServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/v3"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, token):
        """Status and body about a token."""
        self.asked.append(token)
        if self.together:
            self.together.wait()
        found = self.records.get(token, (404, {"error": {"code": 404, "message": "Failed to validate token"}}))
        return found if isinstance(found, tuple) else (200, {"token": found})

    def issue(self, body):
        """Status and body for the service's own sign-in."""
        given = body["auth"]["identity"]["password"]["user"]["password"]
        if given != self.password:
            return 401, {"error": {"code": 401, "message": "no"}}
        times = {"issued_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2099-01-01T00:00:00.000000Z"}
        return 201, {"token": {"catalog": [], "methods": ["password"], "user": {"id": "n", "name": "nova"}} | times}

    def _handler(self):
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                self.send(*stub.issue(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

            def do_GET(self):
                if "/auth/tokens" not in self.path:
                    links = [{"rel": "self", "href": stub.address}]
                    return self.send(200, {"version": {"id": "v3.14", "status": "stable", "links": links}})
                assert self.headers["X-Auth-Token"] == SERVICE_TOKEN
                return self.send(*stub.answer(self.headers["X-Subject-Token"]))

            def send(self, status, record):
                content = record if isinstance(record, bytes) else json.dumps(record).encode()
                self.send_response(status)
                self.send_header("X-Subject-Token", SERVICE_TOKEN)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        return Handler
