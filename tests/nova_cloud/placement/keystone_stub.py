# SPDX-License-Identifier: Apache-2.0
"""As much of keystone as a client of placement needs: tokens, and a catalogue with one endpoint."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class KeystoneStub:
    """Gives the token `admin` for the right password. `tokens` counts them."""

    def __init__(self, endpoint, password):
        self.tokens = 0
        stub = self
        endpoints = [{"id": "e", "interface": "internal", "region": "east", "region_id": "east", "url": endpoint}]
        catalog = [{"id": "s", "name": "placement", "type": "placement", "endpoints": endpoints}]
        times = {"issued_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2099-01-01T00:00:00.000000Z"}
        granted = {
            "token": {"catalog": catalog, "methods": ["password"], "user": {"id": "u", "name": "nova"}} | times
        }

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                is_right = body["auth"]["identity"]["password"]["user"]["password"] == password
                stub.tokens += is_right
                content = json.dumps(granted if is_right else {"error": {"message": "no", "code": 401}}).encode()
                self.send_response(201 if is_right else 401)
                self.send_header("X-Subject-Token", "admin")
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/v3"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
