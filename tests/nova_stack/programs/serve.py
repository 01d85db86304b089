# SPDX-License-Identifier: Apache-2.0
"""Serve placement or nova-api under waitress; every request becomes one JSON line in a file.

serve.py placement|nova-api PORT LOG
"""

import io
import json
import sys
import time

import waitress


def logged(app, log):
    def call(environ, start_response):
        started, status = time.time(), []
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)

        def start(line, headers, exc_info=None):
            status.append(int(line[:3]))
            return start_response(line, headers, exc_info)

        answer = b"".join(app(environ, start))
        query = environ.get("QUERY_STRING")
        log.write(
            json.dumps(
                {
                    "time": round(started, 4),
                    "ms": round((time.time() - started) * 1e3, 2),
                    "method": environ["REQUEST_METHOD"],
                    "url": environ["PATH_INFO"] + ("?" + query if query else ""),
                    "version": environ.get("HTTP_OPENSTACK_API_VERSION"),
                    "from": environ.get("HTTP_USER_AGENT"),
                    "request_id": environ.get("HTTP_X_OPENSTACK_REQUEST_ID"),
                    "body": body.decode(),
                    "status": status[-1],
                    "answer_bytes": len(answer),
                    "answer": answer.decode(errors="replace") if status[-1] >= 400 else None,
                }
            )
            + "\n"
        )
        return [answer]

    return call


def main():
    name, port, path = sys.argv[1:]
    sys.argv = [name]  # both applications parse the command line when they are imported
    if name == "placement":
        from placement.wsgi.api import application
    else:
        from nova.wsgi.osapi_compute import application
    with open(path, "a", buffering=1) as log:
        waitress.serve(
            logged(application, log),
            listen=f"127.0.0.1:{port}",
            threads=8,
            connection_limit=4000,  # every nova-compute keeps a connection open
            asyncore_use_poll=True,
        )


if __name__ == "__main__":
    main()
