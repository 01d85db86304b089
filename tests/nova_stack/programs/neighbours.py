# SPDX-License-Identifier: Apache-2.0
"""The neighbours nova asks, as one small server: an image service and a network service with no networks.

neighbours.py PORT
"""

import json
import re
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

IMAGE = {
    "id": "00000000-0000-4000-8000-000000000001",
    "name": "tiny",
    "status": "active",
    "disk_format": "raw",
    "container_format": "bare",
    "size": 1024,
    "min_ram": 0,
    "min_disk": 0,
    "visibility": "public",
    "owner": "admin",
    "tags": [],
    "protected": False,
    "checksum": "0" * 32,
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
}
images = {each: {**IMAGE, "id": each} for each in (IMAGE["id"], IMAGE["id"][:-1] + "2")}


def answer(method, path, body):
    """(status, JSON value) for one request; snapshots of shelved servers are kept in memory."""
    if image := re.fullmatch(r"/v2/images/([^/]+)", path):
        if method == "DELETE":
            images.pop(image[1], None)
            return 204, None
        return (200, images[image[1]]) if image[1] in images else (404, {})
    if path == "/v2/images" and method == "POST":
        new = {**IMAGE, **body}
        new.setdefault("id", str(uuid.uuid4()))
        new["id"] = new["id"] if new["id"] != IMAGE["id"] else str(uuid.uuid4())
        images[new["id"]] = new
        return 201, new
    if path == "/v2/images":
        return 200, {"images": list(images.values())}
    if path.startswith("/v2/schemas/"):
        return 200, {
            "name": path.rsplit("/", 1)[1],
            "properties": {name: {} for name in IMAGE},
            "additionalProperties": {"type": "string"},
        }
    if network := re.match(r"/v2.0/([a-z-]+)", path):
        return 200, {network[1].replace("-", "_"): []}
    return 404, {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, value = answer(
            self.command, self.path.split("?")[0], json.loads(body) if body[:1] in (b"{", b"[") else None
        )
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = reply  # noqa: N815 - the names that http.server calls


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
