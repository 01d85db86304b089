# SPDX-License-Identifier: Apache-2.0
"""Messages between services, in nova's form: over a broker with oslo.messaging, or within one process.

Start at `interface.py`. Importing this package is cheap: `open_transport` loads oslo.messaging where a broker is
needed.
"""
