# SPDX-License-Identifier: Apache-2.0
"""Serves a Keystone on loopback; runs where Keystone is installed and Roost is not.

    build/keystone-env/bin/python tests/interop/keystone_server.py PORT

OS_KEYSTONE_CONFIG_FILES names its configuration.
"""

import sys


def main(port):
    sys.argv = ["keystone"]  # Keystone parses the arguments when it is imported
    import waitress
    from keystone.wsgi.api import application

    waitress.serve(application, listen=f"127.0.0.1:{port}", threads=4)


if __name__ == "__main__":
    main(sys.argv[1])
